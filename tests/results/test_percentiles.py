"""Percentiles are numpy's `linear`, of weighted samples too."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from twin.results.percentiles import METHOD, percentiles, statistics, weighted_percentiles

finite = some.floats(-1e9, 1e9)
latency = some.floats(0.0, 1e9) | some.sampled_from([0.0, -0.0]) | some.floats(0.02, 0.0201)  # many in a bin, or one


def samples(value: some.SearchStrategy[float]) -> some.SearchStrategy[list[tuple[float, int]]]:
    some_rows = some.lists(some.tuples(value, some.integers(0, 6)), min_size=1, max_size=60)
    return some_rows.filter(lambda rows: sum(count for _, count in rows) > 0)


@given(samples(finite) | samples(latency), some.lists(some.floats(0, 100), min_size=1, max_size=6))
def test_a_weighted_percentile_is_that_of_the_repeated_sample(rows: list[tuple[float, int]], percents: list[float]):
    values, counts = np.array([value for value, _ in rows]), np.array([count for _, count in rows])
    expected = np.percentile(np.repeat(values, counts), percents)
    assert weighted_percentiles(values, counts, percents).tolist() == expected.tolist()
    assert percentiles(values, percents).tolist() == np.percentile(values, percents).tolist()


def test_met_10_percentiles_of_1_to_100_interpolate_linearly():
    found = statistics("x", np.arange(1.0, 101.0))
    assert METHOD == "linear"
    assert found["x_p50"] == 50.5
    assert found["x_p99"] == pytest.approx(99.01, abs=1e-12)  # nearest rank would say 99


def test_a_weighted_mean_counts_every_token():
    found = statistics("x", np.array([0.1, 0.5]), np.array([3, 1]))
    assert found["x_mean"] == pytest.approx(0.2)
    assert found["x_n"] == 4


def test_nothing_has_no_percentiles():
    assert statistics("x", np.array([np.nan])) == {
        "x_mean": None, "x_p50": None, "x_p90": None, "x_p95": None, "x_p99": None, "x_n": 0,
    }  # fmt: skip
