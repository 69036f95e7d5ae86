"""Arrival processes against their closed forms."""

import math

import numpy as np
import pytest
from scipy import stats

from traces import ClosedLoop
from traces.arrivals import arrivals
from traces.streams import Stream

COUNT = 100_000


def _times(text, count=COUNT, seed=0):
    return arrivals(text).times(Stream(seed, "arrival"), count)


def test_cli_04_gamma_gaps_have_the_mean_and_the_cv_asked_for():
    """cli-04: shape 0.25, rate 10, n = 1e5: cv of the gaps 1 / sqrt(0.25) = 2 and mean 0.1, both within 2 %."""
    for text in ("gamma(10,cv=2)", "gamma(10,shape=0.25)"):
        gaps = np.diff(_times(text))
        assert gaps.mean() == pytest.approx(0.1, rel=0.02)
        assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.02)


def test_cli_04_gamma_of_shape_1_is_exponential():
    gaps = np.diff(_times("gamma(10,shape=1)"))
    assert stats.kstest(gaps, "expon", (0, 0.1)).pvalue > 1e-4


@pytest.mark.parametrize("text", ["gamma(10,shape=inf)", "gamma(10,cv=0)", "constant(10)"])
def test_cli_04_gamma_of_infinite_shape_has_constant_gaps(text):
    assert _times(text, 100).tolist() == [request / 10 for request in range(100)]


def test_poisson_gaps_are_exponential_and_independent():
    gaps = np.diff(_times("poisson(8)"))
    assert stats.kstest(gaps, "expon", (0, 1 / 8)).pvalue > 1e-4
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 4 / math.sqrt(COUNT)


@pytest.mark.parametrize("text", ["poisson(8)", "gamma(8,cv=2)", "constant(8)", "burst()", "burst(size=3,every=2)"])
def test_a_longer_trace_begins_with_the_same_arrivals(text):
    assert _times(text, 1000)[:100].tolist() == _times(text, 100).tolist()
    assert _times(text, 100)[0] == 0


def test_bursts():
    assert _times("burst()", 4).tolist() == [0, 0, 0, 0]
    assert _times("burst(size=2,every=1.5)", 5).tolist() == [0, 0, 1.5, 1.5, 3]


def test_a_closed_loop_starts_with_all_its_users():
    assert arrivals("closed(2,think=0.5)").closed() == ClosedLoop(2, 0.5)
    times = _times("closed(2)", 4)
    assert times[:2].tolist() == [0, 0] and np.isnan(times[2:]).all()


@pytest.mark.parametrize(
    "text, problem",
    [
        ("poisson(-1)", "rate is -1"),
        ("poisson(0)", "rate is 0"),
        ("poisson()", "poisson needs rate"),
        ("poisson(inf)", "rate is inf"),
        ("gamma(8)", "needs cv or shape"),
        ("gamma(8,cv=1,shape=1)", "not both"),
        ("gamma(8,cv=-1)", "cv is -1"),
        ("gamma(8,cv=100)", "cv above 31.6"),
        ("gamma(8,shape=0)", "shape is 0"),
        ("closed(0)", "users is 0"),
        ("closed(1.5)", "must be an integer"),
        ("closed(4,think=-1)", "think is -1"),
        ("burst(size=3)", "both size and every"),
        ("burst(size=0,every=1)", "size is 0"),
        ("burst(size=1,every=0)", "every is 0"),
        ("pareto(2)", "there is no pareto"),
    ],
)
def test_wrong_processes_are_refused(text, problem):
    with pytest.raises(ValueError, match="^trace.arrivals=.*; allowed are poisson") as caught:
        arrivals(text)
    assert problem in str(caught.value)
