"""Bracketing and bisection on curves that are known, without a simulation."""

from math import inf, sqrt

import pytest

from tests.results.records import two
from twin.capacity.objectives import ObjectiveError, Sample, objectives_from, percentile, sample
from twin.capacity.probe import Probe
from twin.capacity.search import ALL, FOUND, NONE, UNFINISHED, Bounds, Search
from twin.cli.intervals import t_quantile

BOUNDS = Bounds(start=1.0, least=1 / 1024, most=1024.0, tolerance=0.01)


def curve(*ratios_of, saturated=lambda rate, seed: False):
    """A measurement whose seeds have these ratios at a rate, each a function."""

    def measure(rate: float) -> Probe:
        ratios = [{"x": ratio(rate)} for ratio in ratios_of]
        return Probe(rate, tuple(Sample(seed, each, each, saturated(rate, seed)) for seed, each in enumerate(ratios)))

    return measure


def test_one_seed_finds_the_root_to_the_tolerance():
    answer = Search(curve(lambda rate: (rate / 37) ** 2), BOUNDS).run()
    assert answer.outcome == FOUND and answer.rate is not None and answer.beyond is not None
    assert answer.rate <= 37 < answer.beyond.rate <= answer.rate * 1.01
    assert len(answer.probes) <= 15 and (answer.low, answer.high) == (None, None)


def test_the_interval_is_where_the_ends_of_the_seeds_interval_cross_the_limit():
    """Seeds c rate with c = 0.9, 1.0, 1.1: mean rate, and to either side t s / sqrt(3) = t 0.1 / sqrt(3) of it."""
    answer = Search(curve(*(lambda rate, c=c: c * rate for c in (0.9, 1.0, 1.1))), BOUNDS).run()
    half = t_quantile(2) * 0.1 / sqrt(3)
    assert answer.rate == pytest.approx(1.0, rel=0.01)
    assert answer.low == pytest.approx(1 / (1 + half), rel=0.01) and answer.low <= 1 / (1 + half)
    assert answer.high == pytest.approx(1 / (1 - half), rel=0.01) and answer.high >= 1 / (1 - half)


def test_no_rate_meets_it_and_lower_ones_are_no_better():
    answer = Search(curve(lambda rate: 2 + rate), BOUNDS).run()
    assert answer.outcome == NONE and answer.rate is None and len(answer.probes) < 11
    assert answer.probes[0].level() == pytest.approx(2, rel=0.01)


def test_the_greatest_rate_allowed_still_meets_it():
    answer = Search(curve(lambda rate: 0.5), BOUNDS).run()
    assert answer.outcome == ALL and answer.rate == 1024.0


def test_it_stops_after_so_many_probes():
    answer = Search(curve(lambda rate: rate / 900), Bounds(1.0, 0.1, 1000.0, 0.001, max_probes=12)).run()
    assert answer.outcome == UNFINISHED and len(answer.probes) == 12 and answer.rate is not None and answer.rate <= 900


def test_of_a_curve_that_falls_again_the_lower_root_is_taken_and_it_is_said():
    answer = Search(curve(lambda rate: 1.5 if 3 < rate < 5 else rate / 50), Bounds(1.0, 0.1, 64.0, 0.01)).run()
    assert answer.outcome == FOUND and answer.rate == pytest.approx(3, rel=0.01) and answer.monotone
    tried = Search(curve(lambda rate: 1.5 if 3 < rate < 5 else rate / 50), Bounds(8.0, 0.1, 64.0, 0.01))
    tried.probes[4.0] = tried.measure(4.0)
    answer = tried.run()
    assert answer.rate == pytest.approx(3, rel=0.01)
    tried.probes[8.0] = tried.measure(8.0)
    assert not tried.answer().monotone


@pytest.mark.parametrize(("grow", "met"), [(1, True), (2, True), (3, False), (5, False)])
def test_a_queue_that_grows_in_most_of_five_seeds_is_a_miss(grow: int, met: bool):
    probe = curve(*[lambda rate: 0.1] * 5, saturated=lambda rate, seed: seed < grow)(1.0)
    assert probe.met() is met
    assert Probe(1.0, probe.samples, steady=False).met()
    assert probe.met(side=1) is (grow < 2) and probe.met(side=-1) is (grow < 4)


def test_percentiles_with_infinite_values():
    import numpy as np

    values = np.array([3.0, 1.0, 2.0, 4.0, inf])
    assert percentile(values, 50) == 3.0 and percentile(values, 75) == 4.0
    assert percentile(values, 90) == inf and percentile(values, 76) == inf
    assert percentile(values[:4], 50) == np.percentile(values[:4], 50)
    assert percentile(values[4:], 50) == inf and percentile(values[:0], 50) is None


def test_objectives_from_options():
    found = objectives_from(
        {"ttft_p99": 1.5, "itl_p99": 0.3, "itl_p99_decode_steps": 5, "ttft_s": 2, "attainment": 0.9}, 0.02
    )
    assert found.limits == {"ttft_p99": 1.5, "itl_p99": pytest.approx(0.1)}  # five steps of 20 ms are the tighter limit
    assert found.names == ["ttft_p99", "itl_p99", "attainment"] and found.per_request == {"ttft_s": 2.0}
    assert "90 % of the requests with ttft <= 2 s" in found.in_words()
    with pytest.raises(ObjectiveError, match="no objective is given"):
        objectives_from({"attainment": 0.9, "ttft_p99": None}, 0.02)


def test_what_a_run_uses_of_its_objectives():
    """Of three requests two finish, after 3 s and 2.5 s; the third is rejected."""
    objectives = objectives_from({"e2e_mean": 10.0, "e2e_p50": 6.0, "e2e_p90": 6.0, "e2e_s": 2.5, "attainment": 0.75}, 0.02)
    found = sample(two(), objectives, 3, 0.0, 0)
    assert found.values == {"e2e_mean": 2.75, "e2e_p50": 3.0, "e2e_p90": inf, "attainment": pytest.approx(1 / 3)}
    assert found.ratios["e2e_mean"] == 0.275 and found.ratios["e2e_p50"] == 0.5
    assert found.ratios["attainment"] == pytest.approx((2 / 3) / 0.25)  # two in three miss, one in four may
