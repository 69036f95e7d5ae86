"""Requests given up at any moment of their lives."""

from random import Random

import numpy as np
import pytest

from policies.fcfs import Fcfs
from traces.trace import Trace
from twin.core import Limits, Rules
from twin.latency.linear import LinearLatency
from twin.results.record import Record
from twin.sim import Setup
from twin.sim.simulation import Simulation

NAN = float("nan")


def run(trace: Trace, rules: Rules, **limits) -> Simulation:
    simulation = Simulation(Setup(Limits(**limits), Fcfs(), LinearLatency(base_s=1.0), rules), trace)
    simulation.outcome = simulation.run()  # type: ignore[attr-defined]
    return simulation


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("caching", [False, True])
def test_a_hundred_requests_given_up_at_random_moments(asynchronous: bool, caching: bool) -> None:
    """blk-07: queued, mid-chunk, decoding, swapped, at the very end of a step, long after they ended."""
    rng = Random(7)
    rows = range(100)
    trace = Trace(
        "aborts", np.sort([float(rng.randint(0, 150)) for _ in rows]), np.array([rng.randint(1, 60) for _ in rows]),
        np.array([rng.randint(1, 30) for _ in rows]), n=np.array([rng.choice([1, 1, 1, 2]) for _ in rows]),
        abort_s=np.array([float(rng.randint(0, 400)) for _ in rows]),
    )  # fmt: skip
    rules = Rules(preemption_mode="swap", async_scheduling=asynchronous)
    limits = dict(num_blocks=40, block_size=4, num_host_blocks=20, max_num_batched_tokens=32, enable_prefix_caching=caching)
    simulation = run(trace, rules, **limits)
    outcome, state = simulation.outcome, simulation.scheduler.state  # type: ignore[attr-defined]
    Record(**vars(outcome)).check()
    assert (state.pool.num_free, len(state.pool.free_host)) == (40, 20)
    assert (len(state.running), len(state.waiting), len(state.swapped), state.unforked_seats) == (0, 0, 0, 0)
    status = outcome.requests["status"]
    assert set(status) == {"finished", "aborted"} and outcome.counters["swap_preemptions"] > 0
    finish_s, abort_s = outcome.requests["finish_s"], trace.abort_s
    finished = np.array(status) == "finished"
    assert (finish_s[finished] < abort_s[finished]).all()  # whoever ends in that very step is aborted


def one(abort_s: float, asynchronous: bool) -> tuple[str, int, float]:
    """A prompt of 4 and 5 tokens: they come at 1, 2, 3, 4, 5 s."""
    trace = Trace("one", np.zeros(1), np.array([4]), np.array([5]), abort_s=np.array([abort_s]))
    rules = Rules(async_scheduling=asynchronous)
    requests = run(trace, rules, num_blocks=9).outcome.requests  # type: ignore[attr-defined]
    return requests["status"][0], requests["generated_tokens"][0], requests["finish_s"][0]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    "abort_s, expected",
    [
        (0.0, ("aborted", 0, 0.0)),
        (2.5, ("aborted", 2, 3.0)),  # takes effect when the step under way has ended, before its token
        (3.0, ("aborted", 2, 3.0)),
        (5.0, ("aborted", 4, 5.0)),  # in the step with which it would have finished
        (5.5, ("finished", 5, 5.0)),  # giving up what has ended does nothing
        (NAN, ("finished", 5, 5.0)),
    ],
)
def test_when_an_abort_takes_effect(abort_s: float, expected: tuple[str, int, float], asynchronous: bool) -> None:
    assert one(abort_s, asynchronous) == expected


@pytest.mark.parametrize("asynchronous", [False, True])
def test_who_comes_and_goes_during_one_step_is_never_scheduled(asynchronous: bool) -> None:
    """As vLLM does: both are seen when the step ends. (Here during the step from 0 to 1 s, or from 2 to 3 s.)"""
    arrivals, aborts = np.array([0.0, 0.1, 2.25]), np.array([NAN, 0.2, 2.75])
    trace = Trace("both", arrivals, np.array([4, 4, 4]), np.array([5, 2, 2]), abort_s=aborts)
    requests = run(trace, Rules(async_scheduling=asynchronous), num_blocks=9).outcome.requests  # type: ignore[attr-defined]
    assert list(requests["status"]) == ["finished", "aborted", "aborted"]
    assert np.isnan(requests["first_scheduled_s"][1:].astype(float)).all()
