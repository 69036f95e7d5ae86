"""The device and what drives it, as far as they can be read."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from bench.on_gpu.budget import Deadline
from bench.on_gpu.items import Facts, Item
from bench.on_gpu.setup import Setup
from engine.profile.contamination import run_tool
from engine.profile.environment import device_name, versions

FACTS = ("driver_version", "vbios_version", "power.limit", "clocks.max.sm", "clocks.max.mem", "persistence_mode")
READINGS = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")


def describe(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    device = torch.device(setup.device)
    yield Facts({"device": device_name(device), "versions": versions()})
    if device.type == "cuda":
        about = torch.cuda.get_device_properties(device)
        free, total = torch.cuda.mem_get_info(device)
        yield Facts({
            "uuid": f"GPU-{about.uuid}", "memory_bytes": total, "free_bytes": free, "l2_bytes": about.L2_cache_size,
            "multiprocessors": about.multi_processor_count, "compute_capability": f"{about.major}.{about.minor}",
        })  # fmt: skip
        yield Facts({"nvidia_smi": smi(f"GPU-{about.uuid}", FACTS + READINGS)})


def smi(uuid: str, names: tuple[str, ...], run: Callable[[list[str]], str] = run_tool) -> dict[str, str]:
    """What nvidia-smi says of a GPU, each with its unit; why not, where it cannot be asked."""
    try:
        line = run(["nvidia-smi", f"--id={uuid}", f"--query-gpu={','.join(names)}", "--format=csv,noheader"])
    except (OSError, subprocess.SubprocessError) as error:
        return {"not readable": f"{type(error).__name__} of nvidia-smi"}
    return dict(zip(names, (value.strip() for value in line.strip().split(",")), strict=False))


def source_commit(root: Path, run: Callable[[list[str]], str] = run_tool) -> dict[str, Any]:
    """Which state of the program was measured."""
    try:
        commit = run(["git", "-C", str(root), "rev-parse", "HEAD"]).strip()
        changed = run(["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"]).strip()
    except (OSError, subprocess.SubprocessError) as error:
        return {"commit": None, "why": f"{type(error).__name__} of git"}
    return {"commit": commit, "changed_files": len(changed.splitlines())}
