"""What is held out, and the errors of it."""

import math

import numpy as np
import pytest

from tests.calibrate.made_up import grid, step, table, truth
from twin.calibrate.calibration import calibrate
from twin.calibrate.holdout import blocks, folds, named
from twin.calibrate.judge import Judgement, region_masks
from twin.calibrate.steps import RUN, About, joined
from twin.latency.surface import curve, line_at


def test_repeats_and_near_neighbours_of_a_point_are_held_out_with_it():
    steps = table([step(8, 1000), step(8, 1000), step(8, 1001), step(9, 1000), step(64, 1000), step(8, 1000, 64)])
    block = blocks(steps)
    assert block[0] == block[1] == block[2] == block[3]
    assert len({block[0], block[4], block[5]}) == 3


def test_every_step_is_held_out_once_and_blocks_are_never_torn():
    block = blocks(table(grid()))
    masks = folds(block)
    assert len(masks) == 5 and (np.sum(masks, axis=0) == 1).all()
    for mask in masks:
        assert not set(block[mask]) & set(block[~mask])


def test_runs_are_held_out_whole_and_a_single_one_in_stretches():
    parts = [table(grid()[:20], kind=RUN, runs=(name,), run=np.zeros(20, int)) for name in ("a", "b", "c")]
    assert list(blocks(joined(parts))) == [0] * 20 + [1] * 20 + [2] * 20
    assert list(blocks(parts[0])) == [number // 2 for number in range(20)]
    assert list(named(joined(parts), ["b"])) == [False] * 20 + [True] * 20 + [False] * 20


def test_runs_that_are_not_there_and_all_of_them_are_refused():
    steps = table(grid(), kind=RUN, runs=("load03",))
    with pytest.raises(ValueError, match="holdout=load3: no such run; there are load03; did you mean load03"):
        named(steps, ["load3"])
    with pytest.raises(ValueError, match="nothing is left to fit to"):
        named(steps, ["load03"])


def test_errors_are_those_of_hand_by_region_and_signed():
    steps = table([step(1, 10), step(100, 10), step(chunk=50), step(3, 10, 7)], [1.0, 2.0, 4.0, 10.0])
    regions = Judgement(steps, np.array([1.1, 1.8, 4.0, np.nan])).regions()
    assert regions["decode"] == pytest.approx((0.1, 0.0, 0.1, 2)) and regions["prefill"] == pytest.approx((0.0, 0.0, 0.0, 1))
    assert "mixed" not in regions and regions["all"].steps == 3
    assert regions["saturated"] == pytest.approx((0.1, -0.1, 0.1, 1))  # only the step of 100 sequences


def test_the_limits_of_the_system_say_what_full_is_where_they_are_known():
    steps = table([step(8, 10), step(1, 10), step(chunk=500)], [1.0, 1.0, 1.0], about=About(None, None, None, 1, 8, 1000))
    assert list(region_masks(steps)["saturated"]) == [True, False, False]


def test_the_worst_steps_come_first_and_repeats_once():
    steps = table([step(1, 10), step(1, 10), step(2, 10), step(3, 10)], [1.0, 1.0, 1.0, 1.0])
    assert Judgement(steps, np.array([1.5, 1.4, 0.4, 1.01])).worst(2) == [2, 0]


def test_the_spread_is_that_of_the_noise_that_was_put_in():
    draw = np.random.default_rng(3)
    many = grid() * 20
    noisy = [truth(each) * (1 + 0.05 * draw.standard_normal()) for each in many]
    calibration = calibrate(table(many, noisy))
    assert calibration.judgement.spread == pytest.approx(0.05, rel=0.1)
    assert calibration.judgement.regions()["all"].mape == pytest.approx(0.05 * math.sqrt(2 / math.pi), rel=0.1)


def test_cal_01_between_the_points_of_a_geometric_grid_linear_terms_are_right_and_logarithms_are_not():
    """cal-01: a true time of 2 ms + 3 us n kv, on a grid of factors of two; every point foretold by the others."""
    batches, contexts = (1, 2, 4, 8, 16, 32, 64), (64, 128, 256, 512, 1024, 2048)
    steps = table([step(n, kv) for n in batches for kv in contexts], lambda each: 0.002 + 3e-6 * each.context_tokens)
    calibration = calibrate(steps)
    assert calibration.judgement.regions()["decode"].mape < 0.01

    def left_out(kv: int, logarithmic: bool) -> float:
        """Error at (1, kv) of a line through its two neighbours, over kv or over its logarithm."""
        scale = math.log if logarithmic else float
        knots = curve([(scale(x), 0.002 + 3e-6 * x) for x in (kv / 2, kv * 2)], "made up")
        return line_at(knots, scale(kv))[0] / (0.002 + 3e-6 * kv) - 1

    # at 1024 tokens: (3.536 + 8.144) / 2 = 5.84 ms for 5.072 ms
    assert abs(left_out(1024, logarithmic=False)) < 1e-9
    assert left_out(1024, logarithmic=True) == pytest.approx(5.84 / 5.072 - 1) and 5.84 / 5.072 - 1 > 0.10
