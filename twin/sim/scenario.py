"""Playing hand-written micro-scenarios: step by step, every decision told (the file format: docs/scenarios.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from twin.core.errors import PolicyError
from twin.core.request import Pause
from twin.policy import Policy
from twin.predictor import Predictor
from twin.sim.device import VirtualDevice
from twin.sim.scenario_file import Scenario, ScenarioRequest
from twin.sim.scenario_load import load
from twin.sim.simulation import Setup, Simulation

__all__ = ["Scenario", "load", "play"]


def play(
    scenario: Scenario,
    policy: Policy,
    literal: bool = False,
    predictor: Predictor | None = None,
    device: Callable[..., VirtualDevice] = VirtualDevice,
) -> Iterator[dict[str, Any]]:
    """The steps, and last `{"summary": ...}`. `literal`: by the definition alone, for tests. `device`: as for `Simulation`.

    The policy and the predictor are those that the scenario names; whoever calls has made them from it.
    Raises PolicyError, after the steps that led to it, when the policy raises, breaks a rule or stalls.
    """
    if predictor is None and scenario.predictor != "none":
        raise ValueError(f"the scenario has predictor={scenario.predictor}, and it was not given to play")
    steps: list[dict[str, Any]] = []
    setup = Setup(scenario.limits, policy, scenario.latency, scenario.rules, scenario.swap, predictor)
    trace = ScenarioTrace(scenario)
    simulation = Simulation(setup, trace, decisions=steps.append, literal=literal, keep=True, device=device)
    failure: PolicyError | None = None
    try:
        simulation.run()
    except PolicyError as error:
        failure = error
    yield from steps
    if failure is not None:
        raise failure
    yield {"summary": _summary(simulation, len(steps))}


class ScenarioTrace:
    """The requests of a scenario as columns, in order of arrival; also the content of their prompts."""

    name = "scenario"
    closed = None
    think_s = None

    def __init__(self, scenario: Scenario) -> None:
        rows: list[ScenarioRequest] = sorted(scenario.requests, key=lambda request: request.arrival_s)
        self.rows, self.block_size = rows, scenario.limits.block_size
        self.keys = scenario.block_keys()
        self.arrival_s = np.array([row.arrival_s for row in rows])
        self.prompt_tokens = np.array([row.prompt_tokens for row in rows])
        self.output_tokens = np.array([row.output_tokens for row in rows])
        self.max_tokens = np.array([row.max_tokens or -1 for row in rows])
        self.priority = np.array([row.priority for row in rows])
        self.n = np.array([row.n for row in rows])
        self.user = [row.user for row in rows]
        self.session = [row.session for row in rows]
        self.deadline_s = _stamps([row.deadline_s for row in rows])
        self.abort_s = _stamps([row.abort_s for row in rows]) if any(row.abort_s is not None for row in rows) else None
        self.pauses = [row.pauses for row in rows] if any(row.pauses for row in rows) else None
        self.prefix = self

    def __len__(self) -> int:
        return len(self.rows)

    def ids(self) -> list[str]:
        return [row.id for row in self.rows]

    def pauses_of(self, row: int) -> tuple[Pause, ...]:
        return self.rows[row].pauses

    def shareable_tokens(self) -> np.ndarray:
        return np.array([len(self.keys.get(row.id, ())) * self.block_size for row in self.rows])

    def block_keys(self, row: int, block_size: int, count: int) -> list[int]:
        return self.keys[self.rows[row].id][:count]


def _stamps(values: list[float | None]) -> np.ndarray:
    return np.array([float("nan") if value is None else value for value in values])


def _summary(simulation: Simulation, steps: int) -> dict[str, Any]:
    log = simulation.device.log
    assert log is not None and log.keep
    sequences = sorted(log.sequences, key=lambda request: (request.index, request.id))
    return {
        "steps": steps,
        "preemptions": sum(request.preemptions for request in sequences),
        "free_blocks": simulation.scheduler.state.pool.num_free,
        "recompute_hit_tokens": simulation.scheduler.state.recompute_hits,
        "requests": {
            request.id: {
                "status": request.state,
                "reason": request.reason,
                "first_token_s": request.first_token_s,
                "finish_s": request.finish_s,
                "token_times_s": log.token_times_s.get(request.id, []),
                "cached_tokens": request.cached_tokens or 0,
                "preemptions": request.preemptions,
                "recomputed_tokens": request.recomputed_tokens,
            }
            for request in sequences
        },
    }
