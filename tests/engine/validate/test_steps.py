"""Errors of a latency model by region, by hand."""

import pytest

from engine.validate.steps import Step, StepErrors, step_errors
from twin.core.batch import Features
from twin.latency.linear import LinearLatency

MODEL = LinearLatency(base_s=1.0, per_prefill_token_s=0.1)  # a decode takes 1 s, ten tokens of a prompt 2 s
DECODE, PREFILL, MIXED = Features(2, 0, 2, 20), Features(1, 10, 0, 10, 10, 50.0, 1), Features(2, 10, 1, 20, 10, 50.0, 1)


def test_each_region_has_its_own_and_all_have_theirs():
    steps = [
        Step(DECODE, 0.0, 1.25), Step(DECODE, 2.0, 0.5),  # predicted / measured - 1: -0.2, +1
        Step(PREFILL, 4.0, 2.0),  # 0
        Step(MIXED, 6.0, 1.6),  # +0.25
        Step(DECODE, 9.0, 7.0, moved=True), Step(DECODE, 9.0, 0.0),  # of these no model of computing knows anything
    ]  # fmt: skip
    decode, prefill, mixed, everything = step_errors(MODEL, steps)
    assert decode == pytest.approx(("decode", 2, 0.6, 0.92, 2 / 1.75 - 1))
    assert prefill == StepErrors("prefill", 1, 0.0, 0.0, 0.0)
    assert mixed == pytest.approx(("mixed", 1, 0.25, 0.25, 0.25))
    assert everything == pytest.approx(("all", 4, 1.45 / 4, 0.25 + 0.7 * 0.75, 6 / 5.35 - 1))


def test_a_region_without_steps_is_left_out():
    assert [each.region for each in step_errors(MODEL, [Step(DECODE, 0.0, 1.0)])] == ["decode", "all"]
    assert step_errors(MODEL, []) == []
