"""The served system played from its request log: what the simulator makes of the same requests, and of which steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twin.core.batch import Features
from twin.core.limits import Limits, Rules
from twin.latency.model import LatencyModel
from twin.policy import Policy
from twin.sim import Setup, Simulation

if TYPE_CHECKING:
    from twin.sim.arrivals import Workload
    from twin.sim.simulation import Outcome

COLUMNS = Features._fields  # of a table of steps


class Played(NamedTuple):
    """Stamps of a simulated run, seconds on the log's clock, one a request (nan where it never came so far)."""

    scheduled_s: np.ndarray
    first_s: np.ndarray
    last_s: np.ndarray
    preemptions: np.ndarray


class Steps(NamedTuple):
    """The steps of a simulated run, in order: features (steps, len(COLUMNS)), and when each began and ended."""

    features: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray


@dataclass(frozen=True)
class Served:
    """What served the log: the requests as a workload, the limits and the rules of the scheduler."""

    workload: Workload
    limits: Limits
    rules: Rules
    policy: Callable[[], Policy] = Policy  # that of vLLM: first come, first served

    def with_blocks(self, num_blocks: int) -> Served:
        """The same with another pool."""
        return replace(self, limits=replace(self.limits, num_blocks=num_blocks))

    def play(self, latency: LatencyModel) -> Played:
        """The stamps that the simulator gives the same requests, from their arrivals."""
        return played(self.outcome(latency).requests)

    def outcome(self, latency: LatencyModel) -> Outcome:
        """All that the simulated run leaves."""
        return self._simulation(latency, step_by_step=False).run()

    def play_steps(self, latency: LatencyModel) -> tuple[Played, Steps]:
        """The same, and every step by itself."""
        seen = Recording(latency)
        simulation = self._simulation(seen, step_by_step=True)
        outcome = simulation.run()
        rows = outcome.steps
        computed = rows["sequences"] > 0  # a plan that preempts but schedules nothing takes no time
        repeat, begun = rows["repeat"][computed], rows["start_s"][computed]
        taken = np.array(seen.seconds)
        assert repeat.sum() == len(taken)
        first = np.cumsum(repeat) - repeat  # step with which each row begins
        passed = np.cumsum(taken)
        before = np.repeat(passed[first] - taken[first], repeat)
        end_s = np.repeat(begun, repeat) + passed - before
        return played(outcome.requests), Steps(np.array(seen.features, float), end_s - taken, end_s)

    def _simulation(self, latency: LatencyModel, step_by_step: bool) -> Simulation:
        setup = Setup(self.limits, self.policy(), latency, self.rules)
        return Simulation(setup, self.workload, step_by_step)


class Recording(LatencyModel):
    """The model inside, and every step that it was asked for: one a launch, as long as nothing is fast-forwarded."""

    def __init__(self, inner: LatencyModel) -> None:
        self.inner = inner
        self.features: list[Features] = []
        self.seconds: list[float] = []

    def step_s(self, features: Features) -> float:
        seconds = self.inner.step_s(features)
        self.features.append(features)
        self.seconds.append(seconds)
        return seconds


def played(requests: dict[str, Any]) -> Played:
    """The stamps in the columns of a run's requests."""
    finish_s = np.where(np.array(requests["status"]) == "finished", requests["finish_s"], np.nan)
    scheduled_s, first_s = (np.asarray(requests[name], float) for name in ("first_scheduled_s", "first_token_s"))
    return Played(scheduled_s, first_s, finish_s, requests["preemptions"])
