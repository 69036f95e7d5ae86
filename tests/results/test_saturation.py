"""Whether a queue grows."""

import pytest

from tests.results.records import queue, record, requests, steps, two
from twin.results.saturation import saturation
from twin.results.window import window


def test_an_overloaded_queue_grows_as_fast_as_arrivals_exceed_service():
    """8 requests/s at 4 servers of 0.6 s: 6.667/s are served, the queue grows by 1.333/s."""
    made = queue(6000, rate=8.0)
    found = saturation(made, window(made))
    assert found.saturated
    assert found.slope == pytest.approx(8.0 - 4 / 0.6, abs=0.35)


@pytest.mark.parametrize("rate", [1.0, 4.0, 5.5])
def test_a_stable_queue_is_not_saturated(rate: float):
    """At loads of 0.15, 0.6 and 0.825, in each of ten runs."""
    for seed in range(10):
        made = queue(3000, rate=rate, seed=seed)
        assert saturation(made, window(made)).saturated is False, f"seed {seed}"


def test_a_burst_saturates_what_cannot_serve_it_at_once():
    arrivals = [0.0] * 50
    waiting = steps(waiting=[40, 30, 0])
    served = steps(waiting=[0, 0, 0])
    for table, expected in ((waiting, True), (served, False)):
        made = record(requests(arrival_s=arrivals), table)
        assert saturation(made, window(made)).saturated is expected


def test_three_requests_say_nothing():
    made = two()
    assert saturation(made, window(made)).saturated is None
