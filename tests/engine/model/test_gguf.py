"""GGUF files: the numbers of transformers out of them, and every way in which a file can be wrong."""

from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize

from engine.model.gguf_file import huggingface_name
from engine.model.load import load_model
from tests.engine.model.gguf_writing import refusal_of, write_gguf
from tests.engine.model.reference import expected_logits, logits_of, saved, tokens_of


@pytest.mark.parametrize("tied", (True, False))
@pytest.mark.parametrize("architecture", ("llama", "qwen2", "qwen3"))
def test_logits_equal_those_of_transformers(tmp_path, architecture, tied):
    """Queries and keys of llama lie in pairs, those of Qwen in halves."""
    reference = saved(tmp_path, architecture, head_dim=16, tie_word_embeddings=tied)
    write_gguf(tmp_path / "m.gguf", reference)
    model = load_model(tmp_path / "m.gguf")
    assert (model.config.architecture, model.config.tied, model.config.eos_token_ids) == (architecture, tied, (2,))
    tokens = tokens_of(19)
    torch.testing.assert_close(logits_of(model, tokens), expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)


def test_biases_of_llama(tmp_path):
    reference = saved(tmp_path, "llama", attention_bias=True, mlp_bias=True)
    write_gguf(tmp_path / "m.gguf", reference)
    tokens = tokens_of(19)
    found = logits_of(load_model(tmp_path / "m.gguf"), tokens)
    torch.testing.assert_close(found, expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)


def test_half_precision_files_are_run_in_it(tmp_path):
    reference = saved(tmp_path, "llama")
    for parameter in reference.parameters():  # alone: the reference's rotary table stays in fp32
        parameter.data = parameter.half().float()
    write_gguf(tmp_path / "m.gguf", reference, dtype=np.float16)
    assert load_model(tmp_path / "m.gguf").dtype == torch.float16
    tokens = tokens_of(19)
    found = logits_of(load_model(tmp_path / "m.gguf", "fp32"), tokens)
    torch.testing.assert_close(found, expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)


def test_scaled_rotary_embeddings(tmp_path):
    """Linear, yarn, and Llama 3's as converters write it: a divisor for each frequency."""
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"rope_type": "linear", "factor": 3.0}, {"rope__scaling__type": "linear", "rope__scaling__factor": 3.0}),
        (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
            {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0, "rope__scaling__original_context_length": 16},
        ),
    ]
    for scaling, metadata in cases:
        reference = saved(tmp_path, "qwen2", head_dim=12, rope_parameters={"rope_theta": 500.0, **scaling})
        write_gguf(tmp_path / "m.gguf", reference, **metadata)
        tokens = tokens_of(60)
        found = logits_of(load_model(tmp_path / "m.gguf"), tokens)
        torch.testing.assert_close(found, expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)


def test_divisors_of_the_frequencies(tmp_path):
    scaling = {
        "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }  # fmt: skip
    reference = saved(tmp_path, "llama", head_dim=12, rope_parameters=scaling)
    plain = 1 / 500.0 ** (torch.arange(0, 12, 2) / 12)
    divisors = (plain / reference.model.rotary_emb.inv_freq).numpy()
    assert divisors.max() == pytest.approx(8)
    write_gguf(tmp_path / "m.gguf", reference, tensors={"rope_freqs.weight": divisors})
    tokens = tokens_of(60)
    found = logits_of(load_model(tmp_path / "m.gguf"), tokens)
    torch.testing.assert_close(found, expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({"block_count": None}, "llama.block_count is missing"),
        ({"block_count": 3}, "tensors are missing: model.layers.2.input_layernorm.weight,"),
        ({"block_count": 1}, "tensors that the configuration has no place for: model.layers.1."),
        ({"feed_forward_length": 88}, "gate_proj.weight is [80, 48]; the configuration says [88, 48]"),
        ({"expert_count": 8}, "llama.expert_count is 8; the engine does not run such models"),
        ({"attention__sliding_window": 64}, "llama.attention.sliding_window is 64; the engine does not run such models"),
        ({"rope__dimension_count": 6}, "llama.rope.dimension_count is 6, not the head's 12, which is not run"),
        ({"rope__scaling__type": "longrope"}, "rope.scaling.type is 'longrope'; none, linear, yarn are understood"),
        ({"attention__head_count": "four"}, "llama.attention.head_count must be a whole number above 0, not 'four'"),
        ({"rope__freq_base": "big"}, "llama.rope.freq_base must be a number above 0, not 'big'"),
        ({"attention__head_count": 0}, "llama.attention.head_count must be a whole number above 0, not 0"),
    ],
)
def test_metadata_that_does_not_fit(tmp_path, metadata, complaint):
    write_gguf(tmp_path / "m.gguf", saved(tmp_path, "llama"), **metadata)
    assert complaint in refusal_of(tmp_path / "m.gguf")


def test_another_architecture(tmp_path):
    reference = saved(tmp_path, "llama")
    reference.config.model_type = "phi3"
    write_gguf(tmp_path / "m.gguf", reference)
    assert "general.architecture is 'phi3'; llama, qwen2, qwen3 are understood" in refusal_of(tmp_path / "m.gguf")


@pytest.mark.parametrize("kind", ("Q4_0", "Q4_1", "Q5_0", "Q8_0", "BF16"))
def test_numbers_of_fewer_bits(tmp_path, kind):
    """Matrices as the format's library quantizes them, and what it makes of them again."""
    reference = saved(tmp_path, "qwen2", hidden_size=64, num_attention_heads=4, head_dim=16, intermediate_size=96)
    quantized = GGMLQuantizationType[kind]
    for parameter in reference.parameters():
        if parameter.dim() == 2:
            rounded = dequantize(quantize(parameter.detach().numpy(), quantized), quantized)
            parameter.data = torch.from_numpy(rounded.copy())
    write_gguf(tmp_path / "m.gguf", reference, quantized=quantized)
    model = load_model(tmp_path / "m.gguf")
    assert model.dtype == (torch.bfloat16 if kind == "BF16" else torch.float32)
    tokens = tokens_of(19)
    found = logits_of(load_model(tmp_path / "m.gguf", "fp32"), tokens)
    torch.testing.assert_close(found, expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("divisors", ([1.0], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, float("nan")]))
def test_divisors_that_do_not_fit(tmp_path, divisors):
    values = np.array(divisors, np.float32)
    write_gguf(tmp_path / "m.gguf", saved(tmp_path, "llama"), tensors={"rope_freqs.weight": values})
    assert "rope_freqs.weight must be 6 numbers above 0 (half of head_dim)" in refusal_of(tmp_path / "m.gguf")


def test_names_without_counterpart_stay_as_they_are():
    assert huggingface_name("blk.12.attn_q.bias") == "model.layers.12.self_attn.q_proj.bias"
    for name in ("blk.0.attn_rot_embd.weight", "blk.x.attn_q.weight", "rope_freqs.weight"):
        assert huggingface_name(name) == name
