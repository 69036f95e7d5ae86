"""Scales of an fp8 cache from what a model makes of a prompt."""

from __future__ import annotations

import numpy as np

from engine.attention.torch_backend import TorchAttention
from engine.contents import tokens_of
from engine.kv_cache import KVCache, scales_from
from engine.model.transformer import Transformer
from engine.runner import ModelRunner
from engine.step_input import NO_ROW, StepInput
from twin.core.request import Request

PROMPT = 256  # tokens
MARGIN = 2.0  # other prompts may hold larger numbers; what is larger still is cut off


def observe_scales(model: Transformer, cache: KVCache) -> None:
    """Set the scales of `cache` so that twice the largest numbers of a random prompt fit, each layer and head its own."""
    config, size = model.config, cache.block_size
    count = min(PROMPT, model.max_len)
    blocks = -(-count // size)
    seen = KVCache(config.layers, blocks, size, config.kv_heads, config.head_dim, model.dtype, model.device)
    ModelRunner(model, seen, TorchAttention()).logits(_prompt(count, blocks, config.vocab))
    for layer in range(config.layers):
        k, v = (part.abs().amax(dim=(0, 1, 3)) * MARGIN for part in (seen.k(layer), seen.v(layer)))
        cache.set_scales(layer, scales_from(k), scales_from(v))


def _prompt(count: int, blocks: int, vocab: int) -> StepInput:
    positions = np.arange(count)
    alone = [Request("scales", 0, count, 1)]
    return StepInput(
        np.array(tokens_of(0, "scales", 0, count, vocab)), np.full(count, NO_ROW), positions, positions.copy(),
        np.array([0, count], np.int32), np.array([count], np.int32), np.arange(blocks, dtype=np.int32)[None],
        int(count == 1), [count], [count], alone, np.array([count - 1]), alone,
    )  # fmt: skip
