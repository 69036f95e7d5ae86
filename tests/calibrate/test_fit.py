"""Coefficients from steps whose formula is known."""

from dataclasses import replace

import numpy as np
import pytest

from tests.calibrate.made_up import grid, step, table, truth
from twin.calibrate.calibration import calibrate
from twin.calibrate.conditioning import condition_number, doubts
from twin.calibrate.fit import Prior, fit, left_out, solve
from twin.calibrate.steps import RUN
from twin.calibrate.terms import BASIC, Term
from twin.core.batch import Features
from twin.latency.fitted import FittedLatency


def test_the_coefficients_of_a_formula_come_back():
    values = fit(table(grid())).values
    expected = {
        "base_s": 0.012, "mixed_s": 0.005, "per_decode_token_s": 20e-6, "per_decode_context_token_s": 80e-9,
        "per_prefill_token_s": 50e-6, "per_prefill_attention_s": 3e-9,
    }  # fmt: skip
    found = {str(term): value for term, value in values.items() if value > 1e-15}
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_fit_and_the_latency_model_of_its_file_say_the_same_of_every_step():
    steps = table(grid(), lambda each: truth(each) + 4e-5 * max(0, each.prefill_tokens + each.decode_tokens - 64))
    calibration = calibrate(steps)
    model = FittedLatency(calibration.content({"source": "made up"}))
    told = [model.step_s(each) for each in grid()]
    assert told == pytest.approx(calibration.fit.seconds(steps), rel=1e-3)  # the file has four digits


def test_a_knee_is_found_where_there_is_one_and_nowhere_else():
    def bent(each: Features) -> float:
        return truth(each) + 6e-5 * max(0, each.prefill_tokens + each.decode_tokens - 128)

    steps = [*grid(), *(step(chunk=chunk) for chunk in (96, 128, 160, 192, 384, 512))]
    found = fit(table(steps, bent)).values
    assert {str(term): value for term, value in found.items() if term.at} == pytest.approx({"knees at 128 tokens": 6e-5})
    assert [term for term in fit(table(steps)).terms if term.at] == []


def test_a_tile_is_found_where_kernels_compute_whole_ones():
    def tiled(each: Features) -> float:
        return 0.01 + 4e-5 * 128 * -(-(each.prefill_tokens + each.decode_tokens) // 128)

    steps = [step(chunk=chunk) for chunk in range(40, 1000, 21)] + [step(batch, 100) for batch in range(4, 256, 12)]
    found = fit(table(steps, tiled)).values
    assert found[Term("tiles", 128)] == pytest.approx(4e-5) and found[Term("base_s")] == pytest.approx(0.01)


def test_no_coefficient_is_below_zero_though_longer_steps_be_faster():
    values = fit(table(grid(), lambda each: 0.05 - 1e-5 * each.decode_tokens)).values
    assert min(values.values()) >= 0


def test_weights_let_neither_the_long_steps_nor_the_short_ones_decide():
    """Two steps of 1 s and of 100 s, told by one constant c: of sum((c - t)^2 / t) the least is where
    2 c (1 / 1 + 1 / 100) = 4, at 200 / 101."""
    steps = table([step(1, 10), step(2, 10)], [1.0, 100.0])
    assert solve(steps, [Term("base_s")]).values[Term("base_s")] == pytest.approx(200 / 101)


def test_repeats_of_a_step_weigh_the_same_so_that_noise_makes_nothing_shorter():
    """Their mean is told. By its own duration each, the shorter would count twice, and 4 / (1 + 1 / 3) / 2 = 1.5 be told."""
    steps = table([step(1, 10), step(1, 10)], [1.0, 3.0])
    assert solve(steps, [Term("base_s")]).values[Term("base_s")] == pytest.approx(2.0)


def test_in_a_run_steps_that_are_much_alike_weigh_the_same():
    """Hardly two are the same, and noise would make all shorter: 10 and 11 tokens of context are within a factor of two."""
    steps = replace(table([step(1, 10), step(1, 11)], [1.0, 3.0]), kind=RUN)
    assert solve(steps, [Term("base_s")]).values[Term("base_s")] == pytest.approx(2.0)
    apart = replace(table([step(1, 10), step(1, 99)], [1.0, 3.0]), kind=RUN)
    assert solve(apart, [Term("base_s")]).values[Term("base_s")] == pytest.approx(1.5)


def test_noise_of_thirty_percent_leaves_the_formula_where_it_was():
    draw = np.random.default_rng(3)
    many = grid() * 20
    noisy = table(many, [truth(each) * float(np.exp(0.3 * draw.standard_normal() - 0.045)) for each in many])
    told, true = fit(noisy).seconds(table(grid())), np.array([truth(each) for each in grid()])
    assert abs(np.mean(told / true - 1)) < 0.02  # weighted by each own duration it was 7 % too short


def test_too_few_different_steps_are_refused_with_the_count_that_is_needed():
    few = [step(1, 100), step(2, 100), step(4, 400), step(4, 800)] * 9
    with pytest.raises(ValueError, match="^4 different steps are too few for 3 terms .*at least 6 are needed"):
        fit(table(few))


def test_too_few_that_are_left_when_a_part_is_held_out_are_refused_too():
    alike = [step(4, 100 + number) for number in range(12)]  # all in one cell of the grid
    with pytest.raises(ValueError, match="^0 different steps left when 12 are held out are too few for . terms"):
        calibrate(table(alike))


def test_terms_of_which_no_step_speaks_are_named():
    decodes = table([each for each in grid() if not each.prefill_tokens])
    words = left_out(decodes)
    assert words == [
        "no step says anything of per_prefill_token_s, per_prefill_context_token_s, per_prefill_attention_s: taken as 0"
    ]
    assert "per_prefill_token_s" not in map(str, fit(decodes).terms)


def test_a_term_in_proportion_to_another_is_named_and_left_out():
    first_chunks = [step(chunk=chunk, prompts=prompts) for chunk in (16, 32, 64, 128, 256) for prompts in (1, 2, 4)]
    alike = table([*first_chunks, *(step(batch, 64 * batch) for batch in (1, 2, 4, 8, 16))])
    told = "per_prefill_context_token_s is in proportion to per_prefill_token_s in all steps: the latter stands for both"
    assert left_out(alike) == [told]


def test_terms_that_cannot_be_told_apart_are_named_with_their_correlation():
    """Decodes that all have contexts of 490 to 510 tokens: 0.998 and more of what one term says, the other says too."""
    draw = np.random.default_rng(0)
    steps = table([step(batch, int(draw.integers(490, 510))) for batch in range(1, 129)])
    calibration = calibrate(steps)
    assert any(
        "per_decode_token_s and per_decode_context_token_s cannot be told apart" in line
        and "-0.99" in line
        or "-1.0" in line
        for line in calibration.doubts
    )
    well = calibrate(table(grid()))
    assert not any("told apart" in line for line in well.doubts) and well.condition < calibration.condition


def test_the_condition_number_of_perpendicular_columns_is_one_whatever_their_units():
    rows = np.array([[1e-9, 0.0], [0.0, 1e6]])
    assert condition_number(rows) == pytest.approx(1.0) and doubts(rows, ["a", "b"]) == []
    assert condition_number(np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])) == float("inf")


def test_a_prior_decides_what_the_steps_cannot_and_yields_where_they_can():
    """All contexts are 500: only 20 us + 500 x 80 ns = 60 us a decode is known. The prior says 80 ns, and base 1 s."""
    steps = [step(batch, 500) for batch in (1, 2, 4, 8, 16, 32, 64, 128)] * 30
    draw = np.random.default_rng(0)
    steps = table(steps, [truth(each) * (1 + 0.01 * draw.standard_normal()) for each in steps])
    terms = [Term("base_s"), Term("per_decode_token_s"), Term("per_decode_context_token_s")]
    prior = Prior({terms[0]: 1.0, terms[2]: 80e-9}, relative_sd=0.05)
    believed = solve(steps, terms, prior).values
    assert believed[terms[2]] == pytest.approx(80e-9, rel=0.02)
    assert believed[terms[1]] == pytest.approx(20e-6, rel=0.05) and believed[terms[0]] == pytest.approx(0.012, rel=1e-3)


def test_a_run_of_few_kinds_of_steps_can_be_fitted_too():
    steps = table([step(batch, 300 + 7 * batch) for batch in range(1, 40)], kind=RUN)
    assert fit(steps).values[BASIC[0]] == pytest.approx(0.012, rel=1e-6)


def test_cal_09_what_the_host_adds_to_each_step_is_a_term_and_without_it_every_residual_is_low():
    """cal-09: an engine with 4 ms of CPU time between steps. Device times alone leave a mean residual of that gap."""
    device = np.array([truth(each) for each in grid()])
    whole = table(grid(), device + 0.004, host_s=np.full(len(device), 0.004))
    calibration = calibrate(whole)
    content = calibration.content({"source": "made up"})
    assert content["coefficients"]["host_s"] == pytest.approx(0.004, rel=1e-3)
    assert content["coefficients"]["base_s"] == pytest.approx(0.012, rel=1e-3)
    without = calibrate(table(grid(), device)).content({"source": "made up"})
    low = [FittedLatency(without).step_s(each) - seconds for each, seconds in zip(grid(), whole.seconds, strict=True)]
    assert np.mean(low) == pytest.approx(-0.004, rel=1e-3)
    whole_model = FittedLatency(content)
    assert whole_model.decode_step_s(8, 4096) - FittedLatency(without).decode_step_s(8, 4096) == pytest.approx(
        0.004, rel=1e-3
    )
