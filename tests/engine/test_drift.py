"""Drift: no alarm on noise, one for each move, at its time."""

import math

import numpy as np
import pytest

from engine.drift import BLOCK, SHIFT, Drift, blocks_to_alarm, threshold
from twin.core.batch import Features
from twin.latency.fitted import FittedLatency

STEP_S = 0.01


def model(spread: float = 0.03) -> FittedLatency:
    return FittedLatency(
        {"coefficients": {"base_s": STEP_S}, "range": {"sequences": [1, 8]}, "source": "a test", "spread": spread}
    )


def watched(factors: np.ndarray, spread: float) -> tuple[Drift, np.ndarray]:
    """A run whose steps take so many times what the model says; when each of them began."""
    drift = Drift(model(spread), spread)
    ends_s = np.cumsum(factors * STEP_S)
    starts_s = np.concatenate(([0.0], ends_s[:-1]))
    for start_s, end_s in zip(starts_s, ends_s, strict=True):
        drift.add(float(start_s), float(end_s), STEP_S)
    return drift, starts_s


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.1, 0.2])
def test_stationary_noise_of_the_stored_spread_raises_no_alarm(spread: float):
    noise = np.random.default_rng(3).normal(0, spread, 200_000)
    drift, _ = watched(np.maximum(0.01, 1 + noise), spread)
    assert drift.moves == [] and drift.notes("steps.parquet") == []


def test_nor_do_single_steps_that_are_ten_times_too_long():
    draw = np.random.default_rng(4)
    factors = 1 + draw.normal(0, 0.03, 50_000)
    factors[draw.random(50_000) < 0.05] = 10.0
    assert watched(factors, 0.03)[0].moves == []


@pytest.mark.parametrize("shift", [SHIFT, -SHIFT])
@pytest.mark.parametrize("spread, blocks", [(0.01, 4), (0.03, 4), (0.1, 6), (0.2, 20)])
def test_a_lasting_shift_is_told_within_so_many_blocks_at_its_time(spread: float, blocks: int, shift: float):
    quiet = 40 * BLOCK
    for seed in range(20):
        factors = 1 + np.random.default_rng(seed).normal(0, spread, quiet + blocks * BLOCK)
        factors[quiet:] += shift
        drift, starts_s = watched(factors, spread)
        move = drift.moves[0]  # where the noise is large the level found is not exact, and may be found once more
        assert abs(move.level - shift) < 0.08 and starts_s[quiet - 10 * BLOCK] <= move.since_s <= starts_s[-1]
        if spread <= 0.03:
            assert move.since_s == starts_s[quiet] and drift.moves == [move]


def test_the_delay_stated_is_that_of_the_rule():
    """Without noise: each block adds k where the shift is SHIFT, so the sum passes h = 2.5 k with the third one."""
    drift, starts_s = watched(np.concatenate((np.ones(10 * BLOCK), np.full(10 * BLOCK, 1.1))), 0.03)
    (move,) = drift.moves
    assert move.since_s == starts_s[10 * BLOCK]
    assert move.until_s == pytest.approx(starts_s[13 * BLOCK])
    assert (blocks_to_alarm(0.03), blocks_to_alarm(0.1), blocks_to_alarm(0.2)) == (3, 3, 7)


def test_less_than_half_of_the_shift_is_none():
    assert watched(np.full(100_000, 1.049), 0.03)[0].moves == []


def test_the_way_back_is_a_move_too():
    factors = np.concatenate((np.ones(500), np.full(500, 1.5), np.ones(500)))
    drift, starts_s = watched(factors, 0.03)
    assert [(move.since_s, round(move.level, 6)) for move in drift.moves] == [(starts_s[500], 0.5), (starts_s[1000], 0.0)]
    assert drift.notes("out/steps.parquet") == [
        "drift: from 5.0 s on steps take 50% longer than the latency model says",
        "drift: from 12.5 s on steps take what the latency model says again",
        "drift: python -m twin calibrate profile=out/steps.parquet fits the latency model to this run's steps",
    ]


def test_many_moves_are_told_in_few_lines():
    factors = np.concatenate([np.full(100, 1.0 if turn % 2 else 1.4) for turn in range(20)])
    drift, _ = watched(factors, 0.03)
    told = drift.notes("steps.parquet")
    assert len(drift.moves) == 20 and len(told) == 7 and "15 more such moves" in told[5]


def test_the_threshold_gives_the_run_length_of_siegmund():
    """Solved backwards: b = h + 1.166 put into his formula is twice the blocks wanted."""
    for slack in (0.5, 0.89, 1.2):
        height = threshold(slack)
        b = height + 1.166
        assert (math.exp(2 * slack * b) - 2 * slack * b - 1) / (2 * slack**2) == pytest.approx(4e6, rel=1e-6)
    assert threshold(6.0) == 15.0  # of a steady machine: three blocks


def test_steps_that_the_model_was_not_fitted_to_say_nothing():
    ranges = {"sequences": [1, 8], "prefill_tokens": [10, 20], "decode_context_tokens": [1, 100]}
    about = {"coefficients": {"base_s": STEP_S}, "range": ranges, "source": "a test"}
    drift = Drift(FittedLatency(about), 0.03)
    known = {Features(8, 0, 8, 100): True, Features(9, 0, 9, 100): False, Features(8, 0, 8, 101): False,
             Features(2, 10, 1, 110, 10, 50.0, 1): True, Features(2, 9, 1, 109, 9, 40.5, 1): False}  # fmt: skip
    assert {features: drift._knows(features) for features in known} == known
