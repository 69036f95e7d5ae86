"""What a profile's times depend on beside its rows: model, machine, versions."""

from __future__ import annotations

import datetime
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from engine.runner import ModelRunner
from twin import __version__
from twin.core.limits import Limits

DTYPE_NAMES = {
    torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "fp8",
}  # fmt: skip
DISTRIBUTIONS = ("torch", "triton", "numpy")


def environment(runner: ModelRunner, limits: Limits) -> dict[str, Any]:
    """Plain values, for JSON. Sizes in elements, tokens or blocks."""
    config = runner.model.config
    shape = ("architecture", "layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab", "tied")
    return {
        "model": config.name,
        "shape": {name: getattr(config, name) for name in shape},
        "dtype": DTYPE_NAMES[runner.model.dtype],
        "kv_cache_dtype": DTYPE_NAMES[runner.cache.dtype],
        "attention": runner.attention.name,
        "device": runner.device.type,
        "device_name": device_name(runner.device),
        "threads": torch.get_num_threads(),
        "block_size": limits.block_size,
        "block_bytes": runner.cache.block_bytes,
        "num_gpu_blocks": limits.num_blocks,
        "num_cpu_blocks": limits.num_host_blocks,
        "max_num_seqs": limits.max_num_seqs,
        "max_num_batched_tokens": limits.max_num_batched_tokens,
        "max_model_len": limits.max_model_len,
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def versions() -> dict[str, str]:
    """Of what a step time depends on; those that are not installed are left out."""
    found = {"twin": __version__, "python": platform.python_version(), "platform": platform.platform()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return found


def device_name(device: torch.device, cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """As its maker calls it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
