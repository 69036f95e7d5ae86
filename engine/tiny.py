"""A tiny model with random weights, on the CPU: for scenarios, where decisions matter and words do not."""

from __future__ import annotations

from functools import cache

import torch

from engine.attention.torch_backend import TorchAttention
from engine.model.config import ModelConfig
from engine.model.load import load_model
from engine.model.transformer import Transformer
from engine.runner import ModelRunner, cache_for
from twin.core.limits import Limits

TINY = ModelConfig(
    "tiny", "llama", layers=2, hidden=32, heads=4, kv_heads=2, head_dim=8, intermediate=64, vocab=512, tied=True,
    max_position=4096,
)  # fmt: skip
LONGEST = 1 << 17  # tokens; longer contexts are not for a scenario


def tiny_runner(limits: Limits) -> ModelRunner:
    """With a cache of these limits, all of it NaN until it is written. `EngineError` where memory does not suffice."""
    model = _tiny_model(max(TINY.max_position, min(limits.max_model_len, LONGEST, limits.num_blocks * limits.block_size)))
    cache = cache_for(model, limits, torch.float32)
    cache.poison()
    return ModelRunner(model, cache, TorchAttention())


@cache
def _tiny_model(max_len: int) -> Transformer:
    return load_model(TINY, max_len=max_len)
