"""The fitted model: its terms, its file, its warnings."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.core.batch import Features
from twin.latency.fitted import FittedLatency

CONTENT = {
    "coefficients": {
        "base_s": 0.005,
        "host_s": 0.002,
        "mixed_s": 0.006,
        "per_seq_s": 1e-5,
        "per_prefill_token_s": 2e-5,
        "per_decode_token_s": 1e-6,
        "per_decode_context_token_s": 4e-8,
        "per_prefill_context_token_s": 1e-8,
        "per_prefill_attention_s": 1e-9,
        "per_prefill_seq_s": 1e-4,
    },
    "host_full_sequences": 8,
    "knees": {100: 1e-5},
    "tiles": {64: 1e-6},
    "range": {"sequences": [1, 128], "tokens": [1, 2048]},
    "source": "made up",
}


def test_a_mixed_step_is_the_sum_of_all_terms():
    step = Features(5, 196, 4, 4200, 200, 196 * 98.0, 1)
    expected = 0.005 + 0.002 * 5 / 8 + 0.006 + 5e-5 + 196 * 2e-5 + 4e-6 + 4000 * 4e-8 + 200e-8 + 196 * 98e-9 + 1e-4
    expected += 100 * 1e-5 + 256 * 1e-6  # 200 tokens: 100 above the knee, four tiles of 64
    assert FittedLatency(CONTENT).step_s(step) == pytest.approx(expected, rel=1e-12)


def test_a_decode_step_has_no_prefill_terms():
    expected = 0.005 + 0.002 + 50e-5 + 50e-6 + 64e-6 + 30_000 * 4e-8
    assert FittedLatency(CONTENT).decode_step_s(50, 30_000) == pytest.approx(expected, rel=1e-12)


def test_a_prompt_one_token_over_a_tile_costs_a_whole_tile_more():
    """Sarathi-Serve (2024), section 4.3: a chunk of 257 tokens takes a third longer than one of 256."""
    model = FittedLatency({**CONTENT, "coefficients": {"base_s": 0.001}, "knees": {}, "tiles": {256: 1e-5}})
    assert model.step_s(Features(1, 257, 0, 257, 257)) - model.step_s(Features(1, 256, 0, 256, 256)) == pytest.approx(
        0.00256
    )


@given(sequences=st.integers(1, 300), context=st.integers(300, 10**6), steps=st.integers(0, 40))
def test_a_stretch_is_single_steps_to_the_last_bit(sequences, context, steps):
    model, now, expected = FittedLatency(CONTENT), 7.25, []
    for index in range(steps):
        now += model.step_s(Features(sequences, 0, sequences, context + index * sequences))
        expected.append(now)
    assert model.stretch(7.25, sequences, context, steps, math.inf) == expected


def test_the_range_of_the_file_is_told():
    assert FittedLatency(CONTENT).ranges()["sequences"] == (1, 128)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coefficients": {"per_tokn_s": 1}}, "unknown per_tokn_s; there are base_s, host_s"),
        ({"coefficients": {"base_s": -1}}, "base_s must be a finite number, zero or above, not -1"),
        ({"coefficients": {"base_s": math.nan}}, "base_s must be a finite number"),
        ({"coefficients": {"base_s": 0.0}, "knees": {}, "tiles": {}}, "time would not advance"),
        ({"coefficients": 3}, "coefficients must be a table"),
        ({"range": {"batch": [1, 2]}}, "range: unknown batch"),
        ({"range": {"tokens": [5, 1]}}, r"range of tokens must be \[least, most\]"),
        ({"speed": 1}, "unknown speed; there are coefficients"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(change, message):
    with pytest.raises(ValueError, match=message) as caught:
        FittedLatency({**CONTENT, **change}, "mine.yaml")
    assert str(caught.value).startswith("mine.yaml") and "\n" not in str(caught.value)


def test_a_file_without_source_or_range_is_refused():
    with pytest.raises(ValueError, match="missing range, source"):
        FittedLatency({"coefficients": {"base_s": 1.0}}, "mine.yaml")


def test_it_describes_all_that_a_step_is_a_sum_of():
    """What it says of itself makes the same model again."""
    about = FittedLatency(CONTENT).describe()
    assert about["knees"] == {100: 1e-5} and about["tiles"] == {64: 1e-6} and about["host_full_sequences"] == 8
    again = FittedLatency({name: value for name, value in about.items() if name != "name"})
    step = Features(5, 196, 4, 4200, 200, 196 * 98.0, 1)
    assert again.step_s(step) == FittedLatency(CONTENT).step_s(step)
    assert "knees" not in FittedLatency({"coefficients": {"base_s": 1.0}, "range": {}, "source": "made up"}).describe()
