"""A whole model with Triton's attention and small operations. Run by test_triton_ops.py, under the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.attention.triton.backend import TritonAttention
from engine.model.load import load_model
from engine.model.triton_ops import TritonOps
from tests.engine.model.paged import PlainCache, batch_of
from tests.engine.model.reference import expected_logits, saved, tokens_of

CPU = torch.device("cpu")
torch.set_num_threads(1)


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_logits_are_those_of_transformers(tmp_path: Path, architecture: str) -> None:
    """Over a chunk, another one, and two decodes."""
    reference, tokens = saved(tmp_path, architecture, head_dim=16), tokens_of(17)
    model, attention = load_model(tmp_path, ops=TritonOps(CPU)), TritonAttention(CPU, head_dim=16)
    config = model.config
    cache = PlainCache(config.layers, 8, config.kv_heads, config.head_dim, model.dtype)
    found, done = [], 0
    for size in (9, 6, 1, 1):
        hidden = model.forward(tokens[done : done + size], batch_of((1, done, size)), cache, attention)
        found.append(model.logits(hidden))
        done += size
    torch.testing.assert_close(torch.cat(found), expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)
