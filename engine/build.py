"""From the options to a model on its device, with an attention back end and a size for its cache."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from engine.attention.base import AttentionBackend
from engine.attention.choose import Wanted, attention_backend
from engine.decode_graphs import CudaRecorder, DecodeGraphs
from engine.device_name import device_named
from engine.errors import EngineError
from engine.kv_cache import block_bytes
from engine.kv_scales import observe_scales
from engine.model.compiled_ops import CompiledOps
from engine.model.config import ModelConfig, from_shape
from engine.model.linear import Linear, LinearFactory
from engine.model.load import EMBEDDED, load_model
from engine.model.ops import Ops, TorchOps
from engine.model.transformer import Transformer
from engine.pool_size import device_blocks
from engine.runner import ModelRunner, cache_for
from twin.core.limits import Limits
from twin.memory import ModelShape, model_shape

EMBEDDED_MODEL = "smollm2-135m"  # the shape of conf/model that has weights here
LONGEST = 1 << 21  # tokens of context; the rotary table of a head of 128 takes 1 GiB then
RECORDABLE = ("cuda", "triton")  # back ends whose launches do not depend on what is in the batch
TORCH_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}


@dataclass
class Loaded:
    """What computes: everything but the pool of blocks."""

    model: Transformer
    attention: AttentionBackend
    kv_dtype: torch.dtype
    shape: ModelShape
    graphs: bool = True  # CUDA graphs for decode steps
    observe_scales: bool = False  # of an fp8 cache; else they are 1
    notes: list[str] = field(default_factory=list)

    @property
    def device(self) -> torch.device:
        return self.model.device

    def runner(self, limits: Limits) -> ModelRunner:
        """The model with a cache of so many blocks, on a GPU with graphs for as many decoding sequences as have seats.

        Raises `EngineError` where memory does not suffice.
        """
        cache = cache_for(self.model, limits, self.kv_dtype)
        if self.observe_scales:
            observe_scales(self.model, cache)
        runner = ModelRunner(self.model, cache, self.attention)
        if self.graphs and self.device.type == "cuda" and self.attention.name in RECORDABLE:
            runner.graphs = DecodeGraphs(runner, limits.max_num_seqs, self.model.max_len, CudaRecorder())
        return runner

    def blocks_that_fit(self, config: dict[str, Any]) -> tuple[int, str]:
        """Blocks for the device's pool, and how that comes about, in words."""
        return device_blocks(config, self.device, self.shape, self.block_bytes(config["cache"]["block_size"]))

    def block_bytes(self, block_size: int) -> int:
        config = self.model.config
        return block_bytes(config.layers, block_size, config.kv_heads, config.head_dim, self.kv_dtype)


def load(config: dict[str, Any]) -> Loaded:
    """What `model`, `engine`, `attention` and `cache.kv_cache_dtype` say. Raises `EngineError`."""
    options = config["engine"]
    device = device_named(options["device"])
    if device.type == "cpu":
        torch.set_num_threads(options["threads"] or _threads_wanted() or _cores())
    shape = _shape(config)
    source, notes = _weights(options["weights"], config["model"], shape)
    dtype = options["dtype"] if options["dtype"] != "auto" else "fp32" if device.type == "cpu" else shape.dtype
    kv = config["cache"]["kv_cache_dtype"]
    kv_dtype = TORCH_DTYPES[dtype if kv == "auto" else kv]
    wanted = Wanted(device, shape.head_dim, config["cache"]["block_size"], kv_dtype)
    (ops, linear), attention = _ops(device, options["compile"], notes), attention_backend(config["attention"], wanted)
    notes += [attention.note] if attention.note else []
    longest = config["model"].get("max_model_len") or shape.max_position
    if longest > LONGEST:
        raise EngineError(f"model.max_model_len={longest:,}: the engine computes contexts of up to {LONGEST:,} tokens")
    model = load_model(source, dtype, device, ops, config["seed"], max(longest, shape.max_position), linear)
    _check_shape(model.config, shape)
    observed = kv == "fp8" and options["kv_scales"] == "observed"
    return Loaded(model, attention.backend, kv_dtype, shape, not options["enforce_eager"], observed, notes)


def _shape(config: dict[str, Any]) -> ModelShape:
    try:
        return model_shape(config["model"], config["cache"]["kv_cache_dtype"])
    except ValueError as error:
        raise EngineError(str(error)) from error


def _threads_wanted() -> int:
    """By OMP_NUM_THREADS; 0 if it says nothing that can be understood."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdecimal() else 0


def _cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _weights(weights: str, model: dict[str, Any], shape: ModelShape) -> tuple[str | Path | ModelConfig, list[str]]:
    """Where the weights are from, and what a user should know of it."""
    if weights == "auto":
        if shape.name == EMBEDDED_MODEL:
            return EMBEDDED, []
        if model.get("path"):
            path = Path(model["path"])
            return path if path.is_dir() else path.parent, []
        weights = "random"
    if weights == "random":
        return from_shape(shape), [
            f"model={shape.name}: its weights are random, so its step times are real and its words not"
        ]
    return weights if weights == EMBEDDED else Path(weights), []


def _check_shape(config: ModelConfig, shape: ModelShape) -> None:
    """The weights are those of the model that the scheduler's arithmetic is about."""
    for name in ("architecture", "layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab"):
        there, said = getattr(config, name), getattr(shape, name)
        if there != said:
            raise EngineError(f"engine.weights: {config.name} has {name} {there}, but model={shape.name} has {said}")


def _ops(device: torch.device, compiled: bool, notes: list[str]) -> tuple[Ops, LinearFactory]:
    """The small operations of a layer and its matrix products: the fastest that the device can have, or compiled ones."""
    if compiled:
        return CompiledOps(device), Linear
    if device.type == "cpu":
        from engine.attention.cpu.library import why_not

        if not (why := why_not()):
            from engine.model.cpu_linear import cpu_linear
            from engine.model.cpu_ops import CpuOps

            return CpuOps(), cpu_linear
        notes.append(f"the model's operations and products are torch's ({why})")
        return TorchOps(), Linear
    try:
        from engine.model.triton_ops import TritonOps

        return TritonOps(device), Linear
    except EngineError as error:
        notes.append(f"the model's operations are torch's ({error})")
        return TorchOps(), Linear
