"""Lockstep with a recording: the simulator's scheduler, given vLLM's clock, must decide as vLLM did in every step.

Each step begins and ends when the recorded one did, and a request comes when vLLM was given it, so that both schedulers
plan at the same moments and know of the same requests. All else is decided anew. Whoever differs is found in the first step
in which who is scheduled, in which order, with how many tokens, on how many computed ones (after an admission: the cached
ones), who is admitted or preempted, how many blocks are free, or how many wait and run is not the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.ground_truth.recording import RecordedStep, Recording
from engine.ground_truth.requests_trace import as_added
from engine.ground_truth.system import setup_of
from twin.core.batch import Batch
from twin.core.errors import PolicyError
from twin.latency.model import LatencyError
from twin.latency.replay import ReplayLatency
from twin.sim.device import Flight, VirtualDevice
from twin.sim.simulation import Simulation

Row = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """The first step in which they part; None where one side has no such step."""

    step: int  # from 0, as the recording counts them
    fields: tuple[str, ...]
    vllm: Row | None
    simulator: Row | None
    at_s: float | None = None  # when the recorded step began
    error: str = ""  # what ended the simulation

    def __str__(self) -> str:
        at = "" if self.at_s is None else f" (at {self.at_s:.6f} s)"
        lines = [f"step {self.step}{at} differs in {', '.join(self.fields) or 'that one side has ended'}"]
        for name, row in (("vLLM", self.vllm), ("simulator", self.simulator)):
            lines.append(f"  {name}: {_state(row)}")
        if self.error:
            lines.append(f"  the simulation ended: {self.error}")
        return "\n".join(lines)


def _state(row: Row | None) -> str:
    return "no such step" if row is None else "; ".join(f"{field} {value}" for field, value in row.items())


@dataclass(frozen=True)
class Lockstep:
    """What came of it."""

    steps: int  # on record
    identical: int  # of them, up to the first that differs
    difference: Difference | None
    requests: tuple[str, ...] = ()  # in words, whose hits or preemptions in the table of requests are not those replayed

    @property
    def right(self) -> bool:
        return self.difference is None and not self.requests


class RecordedClock(VirtualDevice):
    """Steps begin and end when the recorded ones did; keeps what was decided in each."""

    def __init__(self, *about: Any, steps: tuple[RecordedStep, ...]) -> None:
        """`about`: what a VirtualDevice wants."""
        super().__init__(*about)
        self.recorded, self.position = steps, 0
        self.rows: list[Row] = []

    def wait_until(self, time_s: float) -> None:
        """Idle: the next thing that happens is the next step on record."""
        if self.position < len(self.recorded):
            time_s = max(time_s, self.recorded[self.position].start_s)
        super().wait_until(time_s)

    def launch(self, batch: Batch, start_s: float) -> float:
        if batch.features is None:
            return start_s
        if self.position == len(self.recorded):
            raise LatencyError(f"the simulator wants step {self.position}, and {self.position} are on record")
        step = self.recorded[self.position]
        self.position += 1
        if self.position == len(self.recorded):
            return max(start_s, step.end_s)
        return max(start_s, self.recorded[self.position].start_s)  # what comes between the steps is seen by the next

    def plan(self) -> Flight:
        flight = super().plan()
        batch, state = flight.batch, self.scheduler.state
        if batch.features is not None:
            self.rows.append({
                "scheduled": {request.id: tokens for request, tokens in batch.scheduled},
                "computed": {request.id: request.computed - tokens for request, tokens in batch.scheduled},
                "admitted": [request.id for request in batch.admitted],
                "preempted": sorted(request.id for request in batch.preempted),
                "free_blocks": state.pool.num_free,
                "waiting": len(state.waiting),
                "running": len(state.running),
            })  # fmt: skip
        return flight


def recorded_row(step: RecordedStep) -> Row:
    """The same of the recording."""
    return {
        "scheduled": {part.request: part.tokens for part in step.parts},
        "computed": {part.request: part.computed for part in step.parts},
        "admitted": list(step.admitted),
        "preempted": sorted(step.preempted),
        "free_blocks": step.free_blocks,
        "waiting": step.waiting,
        "running": step.running,
    }


def lockstep(recording: Recording) -> Lockstep:
    """Replays it. Raises RecordingError for a policy that cannot be had."""
    clocks: list[RecordedClock] = []

    def device(*about: Any) -> RecordedClock:
        clocks.append(RecordedClock(*about, steps=recording.steps))
        return clocks[0]

    setup = setup_of(recording, ReplayLatency([1.0], "a recording"))
    simulation = Simulation(setup, as_added(recording), step_by_step=True, device=device)
    table, error = None, ""
    try:
        table = simulation.run().requests
    except PolicyError as failure:
        error = str(failure)
    rows = clocks[0].rows
    expected = [recorded_row(step) for step in recording.steps]
    for place, (theirs, ours) in enumerate(zip(expected, rows, strict=False)):
        fields = tuple(name for name in theirs if _ordered(theirs[name]) != _ordered(ours[name]))
        if fields:
            at_s = recording.steps[place].start_s
            return Lockstep(len(expected), place, Difference(place, fields, theirs, ours, at_s))
    shorter = min(len(expected), len(rows))
    if len(expected) != len(rows) or table is None:
        sides = [side[shorter] if len(side) > shorter else None for side in (expected, rows)]
        begun_s = recording.steps[shorter].start_s if len(expected) > shorter else None
        return Lockstep(len(expected), shorter, Difference(shorter, (), sides[0], sides[1], begun_s, error))
    return Lockstep(len(expected), shorter, None, tuple(_requests_that_differ(recording, table)))


def _ordered(value: Any) -> Any:
    """Who is scheduled in which order matters too."""
    return list(value.items()) if isinstance(value, dict) else value


def _requests_that_differ(recording: Recording, table: dict[str, Any]) -> list[str]:
    """The table of requests has counts of its own: they must be those that the steps give."""
    rows = {name: place for place, name in enumerate(table["request_id"])}
    found = []
    for request in recording.requests:
        for name, recorded in (("cached_tokens", request.cached_tokens), ("preemptions", request.preemptions)):
            replayed = int(table[name][rows[request.id]])
            if recorded is not None and recorded != replayed:
                found.append(f"request {request.id}: {name} {recorded} on record, {replayed} replayed")
    return found
