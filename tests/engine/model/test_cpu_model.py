"""The whole model in C++ on the CPU: logits of transformers, and the same bits however a prompt is cut and batched."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.attention.cpu import library
from engine.attention.cpu.backend import CpuAttention
from engine.model.cpu_linear import cpu_linear
from engine.model.cpu_ops import CpuOps
from engine.model.load import load_model
from engine.model.transformer import Transformer
from tests.engine.model.paged import BLOCK_SIZE, PlainCache, batch_of
from tests.engine.model.reference import expected_logits, saved, tokens_of

pytestmark = pytest.mark.skipif(library.why_not() is not None, reason=f"{library.why_not()}")

LENGTH = 50
each_architecture = pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])


def native(folder: Path, dtype: str = "fp32") -> Transformer:
    return load_model(folder, dtype, ops=CpuOps(), linear=cpu_linear)


def logits_of(model: Transformer, prompts: list[Tensor], cuts: tuple[int, ...] = ()) -> list[Tensor]:
    """Logits of all positions of all prompts, which go through together, cut at the same places. All are equally long."""
    config, blocks, length = model.config, 1 + LENGTH // BLOCK_SIZE, len(prompts[0])
    cache = PlainCache(config.layers, blocks * len(prompts), config.kv_heads, config.head_dim, model.dtype)
    attention, found = CpuAttention(), []
    for start, end in zip((0, *cuts), (*cuts, length), strict=True):
        batch = batch_of(*((i * blocks, start, end - start) for i in range(len(prompts))))
        hidden = model.forward(torch.cat([prompt[start:end] for prompt in prompts]), batch, cache, attention)
        found.append(model.logits(hidden).view(len(prompts), end - start, -1))
    return list(torch.cat(found, 1))


@each_architecture
def test_logits_are_those_of_transformers(architecture: str, tmp_path: Path):
    reference = saved(tmp_path, architecture)
    tokens = tokens_of(LENGTH)
    got = logits_of(native(tmp_path), [tokens], cuts=(20, 49))[0]
    torch.testing.assert_close(got, expected_logits(reference, tokens), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@each_architecture
def test_the_same_to_the_bit_whole_in_chunks_token_by_token_and_in_a_batch(architecture: str, dtype: str, tmp_path: Path):
    """So a request that was preempted and computed anew goes on with the very tokens it would have had."""
    saved(tmp_path, architecture)
    model = native(tmp_path, dtype)
    prompts = [tokens_of(LENGTH, seed=seed) for seed in range(3)]
    whole = logits_of(model, prompts[:1])[0]
    for cuts in ((1,), (7, 16, 17), (49,), tuple(range(1, LENGTH))):
        assert torch.equal(logits_of(model, prompts[:1], cuts)[0], whole)
        assert torch.equal(logits_of(model, prompts, cuts)[0], whole)
