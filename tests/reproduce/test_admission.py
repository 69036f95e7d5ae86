"""Rules of admission: the same off pressure, to the token; under it reserving costs seats and evicts nobody."""

import pytest

from twin.reproduce.admission import RULES, run
from twin.reproduce.experiment import load
from twin.reproduce.running import simulate, summary_of


@pytest.fixture(scope="module")
def figures():
    words = ["requests=120", "clients=24", "pools=[4000,400]", "jobs=1"]
    return {figure.what: figure for figure in run(load("admission", words))}


def test_off_pressure_the_rules_are_equal(figures):
    """24 requests hold at most 24 x 3,072 / 16 = 4,608 blocks, and in this trace never 3,000: no rule refuses anybody."""
    off = figures["4000 blocks: requests/s, fastest over slowest rule"]
    assert off.size


def test_under_pressure_reserving_is_slower_and_evicts_nobody(figures):
    reserving = figures["400 blocks: requests/s, to completion over whatever fits"]
    longest = figures["400 blocks: requests/s, the longest possible over whatever fits"]
    assert reserving.direction
    assert float(longest.ours.rstrip("%")) < float(reserving.ours.rstrip("%")) < 0
    preemptions = figures["400 blocks: preemptions"].ours
    assert "whatever fits" in preemptions and "completion" not in preemptions and "longest" not in preemptions


def test_seats_of_reservations_by_hand():
    """100 blocks of 16; requests of 160 prompt and 160 output tokens need ceil(319 / 16) = 20 blocks at their end: 5 seats.

    Whatever fits: 10 blocks are enough to come in, so that more than five are begun.
    """
    experiment = load("admission", ["jobs=1"])
    lengths = {"trace.prompt_tokens": 160, "trace.output_tokens": 160, "trace.num_requests": 40}
    shared = lengths | {"policy": "fcfs", "trace.arrivals": "burst()", "cache.num_gpu_blocks": 100}
    chosen = [RULES["to completion"], RULES["whatever fits"]]
    reserving, fits = simulate(experiment, [shared | rule for rule in chosen], summary_of)
    assert reserving["preemptions"] == 0 < fits["preemptions"]
    assert reserving["batch_size_mean"] == pytest.approx(5, rel=0.02)
    assert fits["batch_size_mean"] > 5.3
