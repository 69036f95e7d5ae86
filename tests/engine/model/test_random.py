"""Random weights: the same for a seed, finite at any depth; and models that do not fit."""

import dataclasses

import pytest
import torch

from engine.errors import EngineError
from engine.model import room
from engine.model.config import ModelConfig, from_shape
from engine.model.load import load_model
from engine.model.ops import TorchOps
from tests.engine.model.reference import logits_of, tokens_of
from twin.memory import ModelShape

TINY = ModelConfig("tiny", "llama", 2, 64, 4, 2, 16, 128, 512, True, 4096)


def flat(seed: int, config: ModelConfig = TINY) -> torch.Tensor:
    return logits_of(load_model(config, seed=seed), tokens_of(7, 512)).flatten()


def test_a_seed_says_it_all():
    assert torch.equal(flat(3), flat(3))
    assert not torch.equal(flat(3), flat(4))


def test_a_tensor_does_not_depend_on_the_others():
    """A model with one layer more shares the layers it has in common."""
    shallow, deep = (load_model(dataclasses.replace(TINY, layers=layers)) for layers in (2, 3))
    assert torch.equal(shallow.weights.embedding, deep.weights.embedding)


class Watching(TorchOps):
    """Keeps the deviation of the residual stream after each addition."""

    def __init__(self) -> None:
        self.deviations: list[float] = []

    def add_rms_norm(self, x, residual, weight, eps):
        self.deviations.append((x + residual).float().std().item())
        return super().add_rms_norm(x, residual, weight, eps)


@pytest.mark.parametrize("architecture", ("llama", "qwen2", "qwen3"))
@pytest.mark.parametrize("dtype", ("fp32", "fp16", "bf16"))
@pytest.mark.parametrize("layers", (1, 40))
def test_logits_stay_near_one_and_the_residual_stream_below_at_any_depth(architecture, dtype, layers):
    shape = ModelShape("deep", architecture, layers, 96, 4, 2, 24, 256, 400, False, 512, dtype)
    ops = Watching()
    found = logits_of(load_model(from_shape(shape), ops=ops), tokens_of(12, 400))
    assert 0.5 < found.std() < 2
    assert found.isfinite().all()
    assert len(ops.deviations) == 2 * layers
    assert max(ops.deviations) < 1


def test_a_model_larger_than_the_memory(monkeypatch):
    monkeypatch.setattr(room, "available_bytes", lambda device: 9_000_000)
    big = dataclasses.replace(
        TINY, name="big", hidden=1000, vocab=1000, heads=10, kv_heads=10, head_dim=100, intermediate=500
    )
    # a layer: 4 * 1000^2 + 3 * 1000 * 500 + 2 * 1000; twice; embedding, final norm; the embedding once more
    parameters = 2 * 5_502_000 + 1_000_000 + 1_000 + 1_000_000
    assert parameters == 13_005_000
    with pytest.raises(EngineError) as refusal:
        load_model(big, "fp16")
    assert str(refusal.value) == (
        "model big: loading its weights as fp16 takes 0.026 GB, and 0.009 GB are free on cpu; "
        "0.0045 billion parameters would fit"
    )
