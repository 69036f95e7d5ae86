"""Lengths: each distribution against its closed form, each wrong expression against its message."""

import math

import numpy as np
import pytest
from scipy import stats

from traces.distributions import MOST, distribution
from traces.streams import Stream

COUNT = 100_000
INDEX = np.arange(COUNT)


def _sample(text, count=COUNT):
    return distribution(text, "trace.output_tokens").sample(Stream(0, "length"), INDEX[:count])


def _matches(values, cdf, points):
    """The empirical distribution at some integers, within four standard errors."""
    for point in points:
        expected = cdf(point)
        error = 4 * math.sqrt(expected * (1 - expected) / len(values)) + 1e-12
        assert abs(np.mean(values <= point) - expected) < error, point


def test_constant_and_bare_numbers():
    assert _sample("constant(200)", 3).tolist() == _sample("200", 3).tolist() == _sample(200, 3).tolist() == [200] * 3


def test_uniform_includes_both_ends():
    counts = np.bincount(_sample("uniform(1,19)"))
    assert counts[0] == 0 and len(counts) == 20
    assert stats.chisquare(counts[1:]).pvalue > 1e-4


def test_geometric_has_its_mean_and_starts_at_1():
    values = _sample("geometric(200)")
    assert values.min() == 1
    assert values.mean() == pytest.approx(200, rel=4 / math.sqrt(len(values)))  # standard deviation = mean, nearly
    _matches(values, lambda k: stats.geom.cdf(k, 1 / 200), [1, 10, 100, 200, 1000])
    assert _sample("geometric(1)", 5).tolist() == [1] * 5


def test_exponential_is_rounded_up():
    values = _sample("exponential(10)")
    _matches(values, lambda k: 1 - math.exp(-k / 10), [1, 2, 10, 40])
    mean = 1 / (1 - math.exp(-1 / 10))
    assert values.mean() == pytest.approx(mean, rel=4 / math.sqrt(len(values)))


def test_lognormal_is_rounded_to_the_nearest():
    values = _sample("lognormal(median=200, sigma=1.5)")
    _matches(values, lambda k: stats.norm.cdf(math.log((k + 0.5) / 200) / 1.5), [1, 50, 200, 1000])
    assert _sample("lognormal(median=200,sigma=0)", 2).tolist() == [200, 200]
    assert _sample("lognormal(1e8,9)").max() == MOST


def test_choice_has_its_probabilities():
    values = _sample("choice(100:0.7, 2000:0.2, 3:0.1)")
    assert set(values.tolist()) == {100, 2000, 3}
    _matches(values, {3: 0.1, 100: 0.8}.__getitem__, [3, 100])
    assert set(_sample("choice(5:1,9:0)").tolist()) == {5}


def test_priorities_may_be_zero_and_negative():
    values = distribution("choice(-1:0.5,0:0.5)", "trace.priority", least=None).sample(Stream(0, "p"), INDEX)
    assert set(values.tolist()) == {-1, 0}


@pytest.mark.parametrize(
    "text, problem",
    [
        ("constant(0)", "can be 0, must be at least 1"),
        ("uniform(0,5)", "can be 0, must be at least 1"),
        ("choice(0:0.5,7:0.5)", "can be 0"),
        ("-3", "can be -3"),
        ("constant(1.5)", "must be an integer"),
        ("constant(inf)", "must be an integer"),
        ("constant(1e30)", "at most 1,000,000,000"),
        ("uniform(9,3)", "must not be above high"),
        ("uniform(1)", "uniform needs high"),
        ("uniform(1,2,3)", "at most 2 arguments"),
        ("uniform(1,high=2,high=3)", "given twice"),
        ("uniform(1,low=2)", "given twice"),
        ("uniform(1:2,3)", "not value:weight"),
        ("uniform(1,)", "empty"),
        ("geometric(0)", "must be more than 0"),
        ("geometric(0.5)", "must be at least 1"),
        ("exponential(-1)", "must be more than 0"),
        ("exponential(inf)", "must be more than 0"),
        ("lognormal(median=0,sigma=1)", "median is 0"),
        ("lognormal(median=9,sigma=-1)", "sigma is -1"),
        ("lognormal(median=9,sgima=1)", "no argument sgima"),
        ("choice(1:0.5,2:0.4)", "sum to 0.9"),
        ("choice(1:1.5,2:-0.5)", "must be from 0 to 1"),
        ("choice(1,2)", "value:probability"),
        ("choice()", "value:probability"),
        ("choice(pairs=3)", "no argument pairs"),
        ("pareto(2)", "there is no pareto"),
        ("uniform(one,2)", "'one' is not a number"),
        ("constant(nan)", "'nan' is not a number"),
        ("__import__('os')", "there is no __import__"),
        ("uniform(1,(2))", "not of the form"),
        ("uniform", "not of the form"),
        ("", "not of the form"),
        (True, "not an expression"),
    ],
)
def test_wrong_expressions_are_refused_with_what_is_wrong_and_the_option(text, problem):
    with pytest.raises(ValueError) as caught:
        distribution(text, "trace.output_tokens")
    message = str(caught.value)
    assert problem in message and message.startswith(f"trace.output_tokens={text}: ") and "\n" not in message
    assert "at least 1" in message or "uniform(1,19)" in message
