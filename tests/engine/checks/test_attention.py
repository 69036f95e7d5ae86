"""The check of attention names what is not here, and finds what is wrong."""

import re

import pytest
import torch

from engine.attention.fp8 import FP8
from engine.attention.reference import ReferenceAttention
from engine.checks import attention
from engine.checks.attention import BACKENDS, Layer, check_attention, groups
from engine.checks.outcome import FAILED, NOT_HERE, PASSED
from engine.errors import EngineError

CPU = torch.device("cpu")
LAYER = Layer("a model", 6, 2, 32, 8, torch.float32, torch.bfloat16)


class ForgetsTheGroup(ReferenceAttention):
    """All query heads read the first KV head."""

    def attend(self, q, k_cache, v_cache, batch, scale, k_scale, v_scale):
        k_cache, v_cache = (cache[:, :, :1].expand_as(cache) for cache in (k_cache, v_cache))
        return super().attend(q, k_cache, v_cache, batch, scale, k_scale, v_scale)


class WritesOneSlotTooFar(ReferenceAttention):
    def write(self, k, v, k_cache, v_cache, batch, k_scale, v_scale):
        super().write(k, v, k_cache, v_cache, batch, k_scale, v_scale)
        k_cache.flatten(0, 1)[-1] = 0


def outcomes_with(monkeypatch: pytest.MonkeyPatch, make) -> list:
    monkeypatch.setattr(attention, "BACKENDS", ("mine",))
    monkeypatch.setattr(attention, "backend_for", make)
    return list(check_attention(CPU, LAYER))


def test_the_set_is_compact_and_holds_what_matters():
    cases = [arguments for group in groups(CPU, LAYER) for arguments in group.cases]
    assert len(cases) < 50
    assert {arguments.get("dim", 64) for arguments in cases} == {32, 64, 96, 128, 256}
    assert {arguments.get("dtype", torch.float32) for arguments in cases} == {torch.float32, torch.float16, torch.bfloat16}
    assert FP8 in {arguments.get("cache_dtype") for arguments in cases}
    assert {arguments["heads"] // arguments["kv_heads"] for arguments in cases if "heads" in arguments} >= {1, 3, 5, 7, 8}


def test_the_last_group_has_the_shape_of_the_model():
    group = groups(CPU, LAYER)[-1]
    assert group.about == "a model"
    for arguments in group.cases:
        assert {name: arguments[name] for name in ("heads", "kv_heads", "dim", "block_size")} == {
            "heads": 6, "kv_heads": 2, "dim": 32, "block_size": 8,
        }  # fmt: skip
        assert (arguments["dtype"], arguments["cache_dtype"]) == (torch.float32, torch.bfloat16)


def test_the_definition_passes(monkeypatch: pytest.MonkeyPatch):
    outcomes = outcomes_with(monkeypatch, lambda name, device, *shape: ReferenceAttention())
    assert len(outcomes) == len(groups(CPU, LAYER)) and {outcome.verdict for outcome in outcomes} == {PASSED}
    assert all(outcome.measured.error <= outcome.measured.tolerance for outcome in outcomes)
    assert outcomes[0].measured.error == 0.0  # it is the definition itself


def test_a_back_end_that_mixes_heads_up_fails(monkeypatch: pytest.MonkeyPatch):
    outcomes = outcomes_with(monkeypatch, lambda name, device, *shape: ForgetsTheGroup())
    assert {outcome.verdict for outcome in outcomes} == {FAILED}
    assert re.match(
        r"attend is not close: off by \S+ at token \d, head [23],", outcomes[0].why
    )  # of four; 0 and 1 are right


def test_a_back_end_that_writes_where_it_must_not_fails(monkeypatch: pytest.MonkeyPatch):
    outcomes = outcomes_with(monkeypatch, lambda name, device, *shape: WritesOneSlotTooFar())
    assert {outcome.why for outcome in outcomes} == {"write: a slot was written that is not of this step"}


def test_a_back_end_without_kernels_for_a_shape_is_not_here_for_that_group_alone(monkeypatch: pytest.MonkeyPatch):
    def only_64(name, device, head_dim=64, block_size=16, cache_dtype=None):
        if head_dim != 64:
            raise EngineError(f"no kernels for {head_dim}")
        return ReferenceAttention()

    outcomes = outcomes_with(monkeypatch, only_64)
    assert [outcome.verdict for outcome in outcomes] == [PASSED] * 4 + [NOT_HERE] * 2
    assert outcomes[-1].why == "no kernels for 32"


def test_every_back_end_is_told_of_on_a_cpu():
    outcomes = list(check_attention(CPU, LAYER))
    assert [name for name in BACKENDS if f"attention={name}" in {outcome.what for outcome in outcomes}] == list(BACKENDS)
    (cuda,) = [outcome for outcome in outcomes if outcome.what == "attention=cuda"]
    assert cuda.verdict == NOT_HERE and "attention=cuda: the model is on cpu" in cuda.why
    assert {outcome.verdict for outcome in outcomes if outcome.what == "attention=torch"} == {PASSED}
