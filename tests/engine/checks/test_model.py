"""The dense forward pass is transformers'; the check of the paged one finds what is wrong with it."""

import pytest
import torch

from engine.attention.reference import ReferenceAttention
from engine.attention.torch_backend import TorchAttention
from engine.checks.case import Wrong
from engine.checks.dense import dense_logits
from engine.checks.model import BLOCK_SIZE, LENGTHS, NUM_BLOCKS, SEED, STEPS, check_model, tiny_model
from engine.kv_cache import KVCache
from engine.model.config import ARCHITECTURES, from_huggingface, from_shape
from engine.model.load import load_model
from engine.model.ops import TorchOps
from engine.runner import ModelRunner
from tests.engine.model.reference import expected_logits, saved, tokens_of
from twin.memory import model_shape


def runner(architecture: str, dtype: str = "fp32", ops=None, attention=None) -> ModelRunner:
    config = from_shape(model_shape(tiny_model(architecture)))
    model = load_model(config, dtype, "cpu", ops, SEED)
    cache = KVCache(config.layers, NUM_BLOCKS, BLOCK_SIZE, config.kv_heads, config.head_dim, model.dtype, "cpu")
    return ModelRunner(model, cache, attention or TorchAttention())


@pytest.mark.parametrize("changes", [{}, {"head_dim": 16}, {"num_key_value_heads": 4, "rope_theta": 500.0}], ids=str)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_dense_forward_pass_is_that_of_transformers(architecture: str, changes: dict, tmp_path):
    reference = saved(tmp_path, architecture, **changes).double()
    tensors = dict(reference.named_parameters())
    config = from_huggingface(reference.config.to_dict(), "tiny")
    tokens = tokens_of(40)
    with torch.inference_mode():
        wanted = reference(tokens[None]).logits[0]
        # cosines and sines of transformers are in fp32
        torch.testing.assert_close(dense_logits(config, tensors.get, tokens), wanted, atol=1e-5, rtol=1e-5)
    assert expected_logits(reference, tokens).std() > 0.3


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_engine_passes(architecture: str, dtype: str):
    measured = check_model(runner(architecture, dtype))
    assert 0 < measured.error <= measured.tolerance


def test_the_steps_compute_all_of_the_sequences_in_chunks_and_mixed():
    for sequence, length in enumerate(LENGTHS):
        assert sum(tokens for step in STEPS for number, tokens in step if number == sequence) == length
    assert any(len({tokens == 1 for _, tokens in step}) == 2 for step in STEPS)


class TurnsBackwards(TorchOps):
    def rope(self, q, k, cos, sin, positions):
        return super().rope(q, k, cos, -sin, positions)


class TurnsTooFar(TorchOps):
    def rope(self, q, k, cos, sin, positions):
        return super().rope(q, k, cos, sin, positions + positions // BLOCK_SIZE)


class ForgetsTheNorms(TorchOps):
    def add_rms_norm(self, x, residual, weight, eps):
        return super().add_rms_norm(x, residual, torch.ones_like(weight), eps)


class ForgetsTheGate(TorchOps):
    def silu_mul(self, gate_up):
        return gate_up.chunk(2, dim=-1)[1]


class ReadsTheFirstBlockTwice(ReferenceAttention):
    def attend(self, q, k_cache, v_cache, batch, scale, k_scale, v_scale):
        batch.block_tables[:, 1] = batch.block_tables[:, 0]
        return super().attend(q, k_cache, v_cache, batch, scale, k_scale, v_scale)


class ReadsOneTooFar(ReferenceAttention):
    """The slot behind the context is NaN."""

    def attend(self, q, k_cache, v_cache, batch, scale, k_scale, v_scale):
        batch.context_lens += 1
        try:
            return super().attend(q, k_cache, v_cache, batch, scale, k_scale, v_scale)
        finally:
            batch.context_lens -= 1


@pytest.mark.parametrize("ops", [TurnsBackwards, TurnsTooFar, ForgetsTheNorms, ForgetsTheGate])
def test_wrong_operations_are_found(ops: type[TorchOps]):
    with pytest.raises(Wrong, match="tiny-llama: logits of sequence"):
        check_model(runner("llama", ops=ops()))


@pytest.mark.parametrize("attention, sequence", [(ReadsTheFirstBlockTwice, 0), (ReadsOneTooFar, 0)])
def test_wrong_attention_is_found(attention: type[ReferenceAttention], sequence: int):
    with pytest.raises(Wrong, match=f"logits of sequence {sequence} at position 39 are off by"):
        check_model(runner("llama", attention=attention()))


@pytest.mark.parametrize("name", ["q_norm", "k_norm", "input_norm"])
def test_a_norm_that_is_left_out_is_found(name: str):
    """Norms are not 1 in the check."""
    made = runner("qwen3")
    forward = made.model.forward

    def without(*arguments):
        setattr(made.model.weights.layers[0], name, torch.ones_like(getattr(made.model.weights.layers[0], name)))
        return forward(*arguments)

    made.model.forward = without
    with pytest.raises(Wrong, match="tiny-qwen3"):
        check_model(made)


def test_a_bias_that_is_left_out_is_found():
    made = runner("qwen2")
    made.model.weights.layers[0].qkv.bias.zero_()
    with pytest.raises(Wrong, match="tiny-qwen2"):
        check_model(made)
