"""Logits are those of transformers, for every architecture and choice within it."""

import pytest
import torch

from engine.model.load import load_model
from tests.engine.model.reference import expected_logits, logits_of, saved, tokens_of

HEADS = {1: (4, 4), 2: (4, 2), 3: (6, 2), 4: (8, 2), 8: (8, 1)}  # group -> heads, kv_heads


@pytest.mark.parametrize("tied", (True, False), ids=("tied", "untied"))
@pytest.mark.parametrize("group", HEADS)
@pytest.mark.parametrize("head_dim", (None, 16, 10), ids=("own-head-dim", "head-dim-16", "head-dim-10"))
@pytest.mark.parametrize("architecture", ("llama", "qwen2", "qwen3"))
def test_logits_equal_those_of_transformers(tmp_path, architecture, head_dim, group, tied):
    heads, kv_heads = HEADS[group]
    if head_dim is None and architecture != "qwen3":  # Qwen3 has no dimension of its own: 128 where it is not given
        head_dim = 48 // heads
    reference = saved(
        tmp_path, architecture, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim or 128,
        tie_word_embeddings=tied,
    )  # fmt: skip
    tokens = tokens_of(19)
    found = logits_of(load_model(tmp_path), tokens)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("architecture", ("llama", "qwen3"))
@pytest.mark.parametrize("mlp_bias", (True, False))
def test_biases_of_all_projections(tmp_path, architecture, mlp_bias):
    changes = {"mlp_bias": mlp_bias} if architecture == "llama" else {}
    reference = saved(tmp_path, architecture, attention_bias=True, **changes)
    model = load_model(tmp_path)
    assert (model.config.qkv_bias, model.config.output_bias) == (True, True)
    assert model.config.mlp_bias == (architecture == "llama" and mlp_bias)
    tokens = tokens_of(11)
    torch.testing.assert_close(logits_of(model, tokens), expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)
