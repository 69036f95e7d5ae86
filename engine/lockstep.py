"""Lockstep: what an engine recorded, replayed in the simulator, must be decided alike, step by step.

The simulator gets the same arrivals and the engine's own step durations; the rest is the scheduler's. Whoever differs in who
is scheduled, with how many tokens, in blocks, hits, preemptions or ends, is found at the first step in which it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from twin.core.errors import PolicyError
from twin.latency.model import LatencyError
from twin.latency.replay import ReplayLatency
from twin.sim.arrivals import Workload
from twin.sim.costs import cheaper_mode
from twin.sim.simulation import Setup, Simulation
from twin.sim.swap_link import SwapCost

Row = dict[str, Any]  # a step in the scenario format
TIMES = ("start_s", "end_s", "planned_s", "measured_s")


@dataclass(frozen=True)
class Difference:
    """The first step that was decided differently; a row is None where one side has no such step."""

    step: int
    fields: tuple[str, ...]
    engine: Row | None
    simulator: Row | None

    def __str__(self) -> str:
        lines = [f"step {self.step} differs in {', '.join(self.fields) or 'that one side has ended'}"]
        for name, row in (("engine", self.engine), ("simulator", self.simulator)):
            lines.append(f"  {name}: {'no such step' if row is None else {field: row.get(field) for field in self.fields}}")
        return "\n".join(lines)


def replay(setup: Setup, trace: Workload, recorded: Sequence[Row]) -> list[Row]:
    """The decisions of the simulator with the recorded durations, as far as they go. `setup.policy` must be a fresh one.

    Raises PolicyError as a simulation does.
    """
    costs = cheaper_mode(setup.latency, setup.swap)  # of preemption_mode=auto: as the engine weighed them
    durations = [row["end_s"] - row["start_s"] for row in recorded if row["end_s"] > row["start_s"]]
    setup = replace(setup, latency=ReplayLatency(durations, "the recorded run"), swap=SwapCost())  # swaps are in them too
    rows: list[Row] = []
    try:
        simulation = Simulation(setup, trace, step_by_step=True, decisions=rows.append)
        simulation.scheduler.state.cheaper_mode = costs
        simulation.run()
    except PolicyError as error:
        if not isinstance(error.__cause__, LatencyError):
            raise
    return rows


def first_difference(engine: Sequence[Row], simulator: Sequence[Row]) -> Difference | None:
    """None where all decisions are the same; times, which differ in their last bits, are not compared."""
    for place, (ours, theirs) in enumerate(zip(engine, simulator, strict=False)):
        fields = tuple(name for name in ours if name not in TIMES and _ordered(ours[name]) != _ordered(theirs.get(name)))
        if fields:
            return Difference(place + 1, fields, ours, theirs)
    shorter = min(len(engine), len(simulator))
    if len(engine) != len(simulator):
        rest = [rows[shorter] if len(rows) > shorter else None for rows in (engine, simulator)]
        return Difference(shorter + 1, (), *rest)
    return None


def _ordered(value: Any) -> Any:
    """Who is scheduled in which order matters too."""
    return list(value.items()) if isinstance(value, dict) else value
