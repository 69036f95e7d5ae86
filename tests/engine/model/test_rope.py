"""Rotary tables are those of transformers for every kind of scaling, in the table and in whole models."""

import math

import pytest
import torch
from transformers import LlamaConfig, Qwen2Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from engine.errors import EngineError
from engine.model.config import from_huggingface
from engine.model.load import load_model
from engine.model.rope import attention_factor, inverse_frequencies, rope_tables
from tests.engine.model.reference import expected_logits, logits_of, saved, tokens_of

ORIGINAL = 32  # positions of the training; tests go past it
DIM = 12
LONGROPE = {
    "rope_type": "longrope", "short_factor": [1 + i / 8 for i in range(DIM // 2)],
    "long_factor": [1.5 + i for i in range(DIM // 2)], "original_max_position_embeddings": ORIGINAL,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": ORIGINAL,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL}
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "llama3": LLAMA3,
    "yarn": YARN,
    "yarn-length-left-out": {**YARN, "original_max_position_embeddings": None},
    "yarn-betas": {**YARN, "beta_fast": 16.0, "beta_slow": 2.0, "factor": 2.5},
    "yarn-untruncated": {**YARN, "truncate": False},
    "yarn-attention-factor": {**YARN, "attention_factor": 1.25},
    "yarn-mscale": {**YARN, "mscale": 1.2, "mscale_all_dim": 0.7},
    "yarn-steep": {**YARN, "beta_fast": 1.0, "beta_slow": 1.0},
    "longrope": LONGROPE,
    "longrope-factor": {**LONGROPE, "factor": 6.0},
    "longrope-attention-factor": {**LONGROPE, "attention_factor": 1.1},
}


def given(scaling: dict, theta: float = 500.0) -> dict:
    return {"rope_theta": theta, **{key: value for key, value in scaling.items() if value is not None}}


@pytest.mark.parametrize("max_len", (ORIGINAL, 4 * ORIGINAL))
@pytest.mark.parametrize("name", SCALINGS)
def test_frequencies_and_attention_factor_are_those_of_transformers(name, max_len):
    scaling = given(SCALINGS[name])
    reference = LlamaConfig(
        hidden_size=4 * DIM, num_attention_heads=4, max_position_embeddings=ORIGINAL, rope_parameters=scaling
    )
    wanted, factor = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](reference, "cpu", seq_len=max_len)
    config = from_huggingface({**reference.to_dict(), "dtype": "float32"}, "x")
    assert config.rope.kind == scaling["rope_type"]
    found = inverse_frequencies(config.rope, DIM, ORIGINAL, max_len)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)
    assert attention_factor(config.rope) == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("architecture", ("llama", "qwen2", "qwen3"))
def test_logits_past_the_original_length(tmp_path, architecture, name):
    """A sequence of the longest length the tables are made for: what transformers computes in one pass."""
    length = 3 * ORIGINAL - 5
    reference = saved(
        tmp_path, architecture, head_dim=DIM, max_position_embeddings=ORIGINAL, rope_parameters=given(SCALINGS[name])
    )
    tokens = tokens_of(length)
    found = logits_of(load_model(tmp_path, max_len=length), tokens)
    torch.testing.assert_close(found, expected_logits(reference, tokens), atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ("dynamic", "longrope"))
def test_where_contexts_stay_within_the_original_length_they_turn_as_trained(tmp_path, name):
    reference = saved(
        tmp_path, "llama", head_dim=DIM, max_position_embeddings=ORIGINAL, rope_parameters=given(SCALINGS[name])
    )
    tokens = tokens_of(ORIGINAL - 3)
    found = logits_of(load_model(tmp_path, max_len=ORIGINAL), tokens)
    torch.testing.assert_close(found, expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)


def test_the_plain_table_by_hand():
    """Base 16 and four dimensions: the pairs turn by 1 and by 16^(-1/2) = 1/4 a position."""
    config = from_huggingface({**MINIMAL, "hidden_size": 8, "num_attention_heads": 2, "rope_theta": 16.0}, "x")
    cos, sin = rope_tables(config, 4)
    assert cos.shape == sin.shape == (4, 2)
    assert cos.dtype == torch.float32
    assert cos[3].tolist() == pytest.approx([math.cos(3), math.cos(0.75)], abs=1e-6)
    assert sin[3].tolist() == pytest.approx([math.sin(3), math.sin(0.75)], abs=1e-6)


MINIMAL = {
    "model_type": "llama", "num_hidden_layers": 1, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 8,
    "vocab_size": 9, "max_position_embeddings": ORIGINAL,
}  # fmt: skip


@pytest.mark.parametrize("name", SCALINGS)
def test_the_old_spelling_says_the_same(name):
    """`rope_scaling` with `type` and a `rope_theta` beside it, as files were written before transformers 5."""
    scaling = given(SCALINGS[name])
    new = from_huggingface({**MINIMAL, "rope_parameters": scaling}, "x")
    old = {key: value for key, value in scaling.items() if key not in ("rope_type", "rope_theta")}
    old["type"] = scaling["rope_type"]
    assert from_huggingface({**MINIMAL, "rope_scaling": old, "rope_theta": 500.0}, "x") == new
    assert new.rope.theta == 500.0


def test_theta_defaults_to_ten_thousand_and_null_is_no_scaling():
    for config in (MINIMAL, {**MINIMAL, "rope_scaling": None, "rope_theta": None}):
        rope = from_huggingface(config, "x").rope
        assert (rope.theta, rope.kind) == (10000.0, "default")


def test_the_original_length_beside_the_dictionary_counts_first():
    """As transformers does for checkpoints that keep it outside."""
    reference = Qwen2Config(hidden_size=48, num_attention_heads=4, max_position_embeddings=128, rope_parameters=given(YARN))
    reference.original_max_position_embeddings = 16
    wanted, _ = ROPE_INIT_FUNCTIONS["yarn"](reference, "cpu")
    config = from_huggingface(
        {**MINIMAL, "max_position_embeddings": 128, "rope_parameters": given(YARN), "original_max_position_embeddings": 16},
        "x",
    )
    torch.testing.assert_close(inverse_frequencies(config.rope, DIM, 128, 128), wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rope_parameters": {"rope_type": "spiral"}}, "rope_type is 'spiral'; default, linear, dynamic, llama3, yarn, "),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [2, 2, 2]}}, "rope_type is 'mrope'"),
        ({"rope_parameters": {"mrope_section": [2, 2, 2]}}, "rope_type default has mrope_section, which this"),
        ({"rope_parameters": {"rope_type": "linear"}}, "rope_type linear wants factor"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "llama3 wants low_freq_factor, high_freq_factor"),
        ({"rope_parameters": {"rope_type": "linear", "factor": -1}}, "factor of the rotary embedding must be a number"),
        ({"rope_parameters": {"rope_theta": "big"}}, "theta of the rotary embedding must be a number above 0, not 'big'"),
        ({"rope_parameters": {**LONGROPE, "long_factor": [1.0]}}, "long_factor must be 6 numbers above 0"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor is 0.5; only models that turn"),
        ({"partial_rotary_factor": 0.25}, "partial_rotary_factor is 0.25"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "has full_attention, which this"),
        ({"rope_parameters": [1]}, "rope_parameters must be a mapping, not [1]"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(change, complaint):
    with pytest.raises(EngineError) as refusal:
        from_huggingface({**MINIMAL, **change}, "x", "FOLDER/config.json")
    assert complaint in str(refusal.value)
    assert str(refusal.value).startswith("FOLDER/config.json: ")
    assert "\n" not in str(refusal.value)
