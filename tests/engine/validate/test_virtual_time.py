"""No host time enters simulated time: a clock that jumps about changes nothing but the report of how long it took."""

import time

import numpy as np
import pytest

from engine.validate.laboratory import at_rate
from engine.validate.steps import Step
from tests.engine.validate.test_fit import fitted, steps
from traces.trace import Trace
from twin.core import Limits
from twin.policy_assembly import assemble
from twin.results.record import Record
from twin.results.summary import summarize
from twin.sim import Setup, Simulation

CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


def simulated(measured: list[Step]) -> dict:
    draw = np.random.default_rng(2)
    trace = Trace("a test", np.arange(40) * 1.0, draw.integers(1, 60, 40), draw.integers(1, 20, 40))
    limits = Limits(64, max_num_seqs=8, max_num_batched_tokens=128, max_model_len=256)
    setup = Setup(limits, assemble("fcfs", {}).policy, fitted(measured))
    outcome = Simulation(setup, at_rate(50.0)(trace)).run()
    summary = summarize(Record(**vars(outcome)))
    return {name: value for name, value in summary.items() if "wall" not in name}


def test_the_simulator_does_not_look_at_the_clock(monkeypatch: pytest.MonkeyPatch):
    measured = steps()
    before = simulated(measured)
    for name in CLOCKS:
        draw = np.random.default_rng(3)
        monkeypatch.setattr(time, name, lambda draw=draw: float(draw.random() * 1e6))
    assert simulated(measured) == before and before["finished"] == 40
