"""Whether the weights of a model fit into the memory that is free."""

from __future__ import annotations

from pathlib import Path

import torch

from engine.errors import EngineError
from engine.model.config import ModelConfig
from engine.model.tensor_shapes import parameter_count
from engine.model.weights import TORCH_DTYPES

MEMORY_INFO = Path("/proc/meminfo")


def check_room(config: ModelConfig, dtype: str, device: torch.device) -> None:
    """Refuse a model whose weights exceed what is free on the device; the embedding counts twice, as a matrix in transit."""
    free = free_bytes(device)
    parameters = parameter_count(config) + config.vocab * config.hidden
    needed = parameters * TORCH_DTYPES[dtype].itemsize
    if free is not None and needed > free:
        raise EngineError(
            f"model {config.name}: loading its weights as {dtype} takes {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are "
            f"free on {device}; {free / TORCH_DTYPES[dtype].itemsize / 1e9:.2g} billion parameters would fit"
        )


def free_bytes(device: torch.device) -> int | None:
    """Memory that is free on a device; None where the machine does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if not MEMORY_INFO.is_file():
        return None
    for line in MEMORY_INFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024  # the kernel counts in KiB
    return None
