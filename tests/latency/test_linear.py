"""The linear model: the formula of the manual, and stretches equal to single steps to the last bit."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.core.batch import Features
from twin.latency.linear import LinearLatency

SECONDS = st.floats(min_value=0, max_value=0.1, allow_nan=False)


def test_step_is_the_sum_of_the_six_terms():
    model = LinearLatency(
        base_s=1, mixed_s=2, per_seq_s=10, per_prefill_token_s=100, per_decode_token_s=1000, per_context_token_s=0.5
    )
    mixed = Features(sequences=3, prefill_tokens=7, decode_tokens=2, context_tokens=40, prefill_context_tokens=7)
    assert model.step_s(mixed) == 1 + 2 + 30 + 700 + 2000 + 20
    assert model.step_s(Features(2, 0, 2, 40)) == 1 + 20 + 2000 + 20  # no prefill: no mixed term


def test_every_field_defaults_to_zero():
    assert LinearLatency(base_s=1.0).step_s(Features(5, 300, 4, 900, 300)) == 1.0


@given(
    base=SECONDS,
    per_seq=SECONDS,
    per_decode=SECONDS,
    per_context=st.floats(min_value=1e-9, max_value=1e-3),
    start=st.floats(min_value=0, max_value=1e6),
    sequences=st.integers(1, 300),
    extra=st.integers(0, 100_000),
    steps=st.integers(0, 60),
    patience=st.floats(min_value=0, max_value=1),
)
def test_a_stretch_is_single_steps_to_the_last_bit(
    base, per_seq, per_decode, per_context, start, sequences, extra, steps, patience
):
    model = LinearLatency(base, 0.0, per_seq, 0.0, per_decode, per_context)
    context, now, expected = sequences + extra, start, []
    for _ in range(steps):
        now += model.step_s(Features(sequences, 0, sequences, context))
        expected.append(now)
        context += sequences
        if now >= start + patience:
            break
    assert model.stretch(start, sequences, sequences + extra, steps, start + patience) == expected


def test_a_stretch_ends_with_the_first_step_at_or_after_the_time_given():
    model = LinearLatency(base_s=1.0)
    assert model.stretch(0.0, 2, 10, 100, 3.0) == [1.0, 2.0, 3.0]
    assert model.stretch(0.0, 2, 10, 100, 2.5) == [1.0, 2.0, 3.0]
    assert model.stretch(0.0, 2, 10, 2, math.inf) == [1.0, 2.0]


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "fast", None, True])
def test_a_field_that_is_no_time_is_refused(value):
    with pytest.raises(ValueError, match="base_s must be a finite number, zero or above"):
        LinearLatency(base_s=value)


def test_all_zero_is_refused_because_time_would_not_advance():
    with pytest.raises(ValueError, match="time would not advance"):
        LinearLatency()


def test_terms_by_token_alone_are_legal_and_a_step_without_them_takes_no_time():
    model = LinearLatency(per_prefill_token_s=0.001)
    assert model.step_s(Features(1, 10, 0, 10, 10)) == 0.01
    assert model.step_s(Features(1, 0, 1, 11)) == 0.0
    assert model.stretch(0.0, 1, 11, 5, 1.0) == [0.0] * 5
