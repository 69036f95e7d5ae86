"""Verdicts by hand: each figure has its own tolerance, and the engine's own spread beside it."""

import pytest

from engine.validate.comparison import (
    KEYS,
    OUTSIDE,
    UNDEFINED,
    WITHIN,
    WITHIN_SPREAD,
    cancelling,
    compare,
    judge,
    metrics_at,
)


def test_an_error_is_of_the_simulator_against_the_mean_of_the_engine():
    """Runs of 0.9, 1.0 and 1.4 s: their mean is 1.1, the farthest lies 27.3 % from it."""
    row = judge("ttft mean", [0.9, 1.0, 1.4], 1.144, 0.05)
    assert row.engine == pytest.approx(1.1) and row.error == pytest.approx(0.04)
    assert row.spread == pytest.approx(0.3 / 1.1) and row.verdict == WITHIN


@pytest.mark.parametrize(
    "simulator, tolerance, verdict",
    [(1.05, 0.05, WITHIN), (0.95, 0.05, WITHIN), (1.0501, 0.05, WITHIN_SPREAD), (1.1, 0.0, WITHIN_SPREAD),
     (0.9, 0.05, WITHIN_SPREAD), (1.11, 0.05, OUTSIDE), (0.89, 0.1, OUTSIDE), (1.11, 0.12, WITHIN)],
)  # fmt: skip
def test_verdicts_where_the_engine_spreads_by_a_tenth(simulator: float, tolerance: float, verdict: str):
    assert judge("tpot p50", [0.9, 1.1], simulator + 1e-12 * (1 - simulator), tolerance).verdict == verdict


def test_one_run_has_no_spread_to_hide_in():
    row = judge("tpot p50", [1.0], 1.06, 0.05)
    assert row.spread is None and row.verdict == OUTSIDE


def test_what_one_half_alone_has_is_wrong_and_what_neither_has_is_not_defined():
    assert judge("queue_slope", [None, None], None, 0.1).verdict == UNDEFINED
    assert judge("queue_slope", [None], 0.3, 0.1).verdict == OUTSIDE
    assert judge("queue_slope", [0.3, None], 0.3, 0.1).verdict == OUTSIDE
    assert judge("queue_slope", [0.3], None, 0.1).verdict == OUTSIDE


@pytest.mark.parametrize(
    "engine, simulator, error, verdict",
    [(0.0, 0.0, 0.0, WITHIN), (0.0, 0.4, 0.04, WITHIN), (3.0, 2.6, -0.04, WITHIN), (3.0, 2.4, -0.06, OUTSIDE),
     (-0.5, 0.1, 0.06, OUTSIDE)],
)  # fmt: skip
def test_the_growth_of_a_queue_is_judged_by_the_arrival_rate(engine: float, simulator: float, error: float, verdict: str):
    """10 requests arrive a second. A queue that does not grow has no share of its own growth."""
    summaries = [{"queue_slope_per_s": slope, "request_throughput": 1.0} for slope in (engine, simulator)]
    tolerances = {"queue_slope": 0.05, "throughput": 0.05}
    row = compare(1.3, 10.0, summaries[:1], summaries[1], tolerances)[1]
    assert row.error == pytest.approx(error) and row.verdict == verdict


def test_past_saturation_only_throughput_and_the_queue_count():
    """cal-08: below, every figure of the table; beyond, latencies mean nothing."""
    assert metrics_at(1.0) == metrics_at(1.3) == ["throughput", "queue_slope"]
    below = metrics_at(0.95)
    assert len(below) == 13 and "queue_slope" not in below and {"ttft p99", "e2e mean", "throughput"} <= set(below)


def test_no_figure_hides_another():
    """Only the 99 % quantile of TPOT is off, and the mean of everything is right."""
    summary = dict.fromkeys(KEYS.values(), 1.0)
    tolerances = dict.fromkeys(KEYS, 0.05)
    rows = compare(0.7, 10.0, [summary], summary | {"tpot_s_p99": 1.2}, tolerances)
    assert [row.metric for row in rows if row.verdict == OUTSIDE] == ["tpot p99"]
    assert all(row.verdict == WITHIN for row in compare(0.7, 10.0, [summary], summary, tolerances))
    forgiving = tolerances | {"tpot p99": 0.25}
    assert all(row.verdict == WITHIN for row in compare(0.7, 10.0, [summary], summary | {"tpot_s_p99": 1.2}, forgiving))


def test_cal_02_errors_that_cancel_in_the_whole_are_named():
    """cal-02: a report with TTFT -87.5 %, TPOT +173.5 %, latency -14.7 %: each is judged, and what hides what is said."""
    engine = {"ttft_s_mean": 8.0, "tpot_s_mean": 0.02, "e2e_s_mean": 10.0}
    simulator = {"ttft_s_mean": 1.0, "tpot_s_mean": 0.0547, "e2e_s_mean": 8.53}
    rows = [judge(name, [engine[key]], simulator[key], 0.05) for name, key in KEYS.items() if key in engine]
    assert [row.verdict for row in rows] == [OUTSIDE] * 3
    assert cancelling(rows) == "TTFT -87.5 % and TPOT +173.5 % cancel in E2E -14.7 %: look at each by itself"
    for ttft, tpot, e2e in ((1.2, 1.1, 1.15), (1.03, 0.98, 1.0)):  # in one direction; within tolerance
        values = {"ttft mean": ttft, "tpot mean": tpot, "e2e mean": e2e}
        assert cancelling([judge(name, [1.0], value, 0.05) for name, value in values.items()]) is None
