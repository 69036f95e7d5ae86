"""Whether the weights of a model fit into the memory that is free."""

from __future__ import annotations

import torch

from engine.errors import EngineError
from engine.kv_cache import available_bytes
from engine.model.config import ModelConfig
from engine.model.tensor_shapes import parameter_count
from engine.model.weights import TORCH_DTYPES


def check_room(config: ModelConfig, dtype: str, device: torch.device) -> None:
    """Refuse a model whose weights exceed what is free on the device; the embedding counts twice, as a matrix in transit."""
    free, size = available_bytes(device), TORCH_DTYPES[dtype].itemsize
    needed = (parameter_count(config) + config.vocab * config.hidden) * size
    if needed > free:
        raise EngineError(
            f"model {config.name}: loading its weights as {dtype} takes {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are "
            f"free on {device}; {free / size / 1e9:.2g} billion parameters would fit"
        )
