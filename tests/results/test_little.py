"""met-12: Little's law."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.results.records import queue, record, requests, two
from twin.results.little import littles_law


def test_met_12_by_hand():
    """A is there in [0, 3], B in [0.5, 3]: 5.5 request seconds in 3; C, rejected, adds nothing."""
    found = littles_law(two(), 0.0, 3.0)
    assert found.in_system == pytest.approx(5.5 / 3)
    assert (found.rate, found.sojourn_s, found.edge) == (1.0, pytest.approx(5.5 / 3), 0.0)
    cut = littles_law(two(), 1.0, 3.0)  # both were there before
    assert (cut.in_system, cut.rate, cut.edge) == (2.0, 0.0, 2.0)


@given(some.lists(some.tuples(some.floats(0, 50), some.floats(0, 30)), min_size=1), some.floats(0, 20),
       some.floats(1, 40))  # fmt: skip
def test_met_12_edge_corrected_it_is_an_identity(stays: list[tuple[float, float]], start_s: float, length_s: float):
    ends = [arrival + stay for arrival, stay in stays]
    made = record(requests(arrival_s=[arrival for arrival, _ in stays], first_token_s=ends, finish_s=ends), end_s=90.0)
    assert littles_law(made, start_s, start_s + length_s).error == pytest.approx(0.0, abs=1e-9)


def test_met_12_of_a_long_stable_run_without_correction():
    made = queue(20_000, rate=4.0)
    found = littles_law(made, 100.0, made.end_s - 100.0)
    assert found.in_system == pytest.approx(found.rate * found.sojourn_s, rel=0.01)


def test_an_empty_window_is_refused():
    with pytest.raises(ValueError, match="a window of some length"):
        littles_law(two(), 1.0, 1.0)
