"""The order of a profile: probes, points that the time allows, a round of warm-up, then rounds of repeats.

The repeats of a point are spread over the whole run, one in each round, and each round has its own random order. So whatever
drifts (clocks, heat, other processes) shows as a spread of repeats, and is not mistaken for a difference between points.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.errors import EngineError, StepFailure
from engine.profile.composition import Composition
from engine.profile.contamination import LoadReader, reasons, spread
from engine.profile.grid import grid
from engine.profile.plan import Costs, Selection, costs, probes, select
from engine.profile.stepper import Timing
from twin.core.limits import Limits

PROBE_TIMES = 3  # the first of them is warm-up
OVERDRAWN = 1.25  # of the budget: no further round is begun that would end beyond


@dataclass(frozen=True)
class Options:
    """What a user may say."""

    budget_s: float = 60.0
    repeats: int = 5
    seed: int = 0


class Row(NamedTuple):
    """One step that was measured."""

    point: int  # number of its composition
    composition: Composition
    repeat: int  # from 0
    order: int  # its place in the run, from 0
    started_s: float  # since the run began
    timing: Timing
    foreign: str | None  # what others did on the machine meanwhile


@dataclass
class Profile:
    """What has been measured so far; `complete` once all of it has."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    selection: Selection | None = None
    complete: bool = False

    def spreads(self) -> dict[int, float | None]:
        """By point: the coefficient of variation of the durations of its repeats."""
        durations = defaultdict(list)
        for row in self.rows:
            durations[row.point].append(row.timing.duration_s)
        return {point: spread(of_point) for point, of_point in durations.items()}

    def reasons(self) -> list[list[str]]:
        """By row: why it is contaminated; empty where it is not."""
        spreads = self.spreads()
        return [reasons(spreads[row.point], row.foreign, row.timing.duration_s, row.timing.device_s) for row in self.rows]


class Measuring:
    """A profile in the making. `profile` holds what is done even if the run is interrupted."""

    def __init__(
        self, limits: Limits, measure: Callable[[Composition], Timing], load: LoadReader, options: Options,
        clock: Callable[[], float] = time.perf_counter, tell: Callable[[str], None] = lambda message: None,
    ) -> None:  # fmt: skip
        """`tell` is given one line at each stage."""
        self.limits, self.measure, self.load, self.options = limits, measure, load, options
        self.clock, self.tell = clock, tell
        self.began_s = clock()
        self.profile = Profile()
        self.failed: set[Composition] = set()
        self.unread: list[Row] = []  # rows since the load was read
        self.read_s = self.began_s

    def run(self) -> None:
        points = self._points(self._probe())
        self.tell(f"warming up {len(points)} points")
        for point in points:
            self._try(point)
        self.load.read()  # what it says from here on counts
        self.read_s = self.clock()
        for repeat in range(self.options.repeats):
            round_began_s = self.clock()
            self._round(points, repeat)
            if repeat + 1 < self.options.repeats and not self._time_for_another(self.clock() - round_began_s, repeat + 1):
                break
        self._attribute()
        self.profile.complete = True

    def _probe(self) -> Costs:
        self.tell("probing")
        chosen = probes(self.limits)
        seconds = {}
        for point in chosen:
            if point is not None:
                times = [self._seconds(point) for _ in range(PROBE_TIMES)]
                seconds[point] = min(times[1:])
        return costs(chosen, seconds)

    def _seconds(self, point: Composition) -> float:
        """What measuring takes, preparation included."""
        start = self.clock()
        try:
            self.measure(point)
        except StepFailure as failure:
            raise EngineError(f"engine profile: {describe(point)} could not be computed: {failure}") from failure
        return self.clock() - start

    def _points(self, costs: Costs) -> list[Composition]:
        options, notes = self.options, self.profile.notes
        left_s = options.budget_s - (self.clock() - self.began_s)
        selection = select(grid(self.limits), costs, 1 + options.repeats, max(left_s, 0.0))
        if not selection.points:
            raise EngineError(
                f"profile.budget_s={options.budget_s:g}: no point fits after the probes; the smallest takes "
                f"{costs.base_s:.3g} s each time, {1 + options.repeats} times"
            )
        self.profile.selection = selection
        notes.append(
            f"{len(selection.points)} of {selection.planned} points of the grid, {options.repeats} repeats each: "
            f"about {selection.seconds:.0f} s of profile.budget_s={options.budget_s:g}"
        )
        if selection.too_long:
            notes.append(f"{selection.too_long} points left out that would each take more than a tenth of the budget")
        if selection.over_budget:
            notes.append(f"{selection.over_budget} points left out for which there is no time")
        if not self.limits.num_host_blocks:
            notes.append("no swaps measured: cache.num_cpu_blocks is 0")
        if options.repeats == 1:
            notes.append("profile.repeats=1: whether repeats agree is not known")
        if why := self.load.why_not():
            notes.append(why)
        return selection.points

    def _round(self, points: list[Composition], repeat: int) -> None:
        self.tell(f"repeat {repeat + 1} of {self.options.repeats}")
        order = list(range(len(points)))
        random.Random(f"{self.options.seed}/{repeat}").shuffle(order)
        for number in order:
            if points[number] not in self.failed:
                self._row(number, points[number], repeat)

    def _row(self, number: int, point: Composition, repeat: int) -> None:
        started_s = self.clock()
        timing = self._try(point)
        if timing is None:
            return
        done = len(self.profile.rows) + len(self.unread)
        self.unread.append(Row(number, point, repeat, done, started_s - self.began_s, timing, None))
        if self.clock() - self.read_s >= self.load.window_s:
            self._attribute()

    def _attribute(self) -> None:
        """What others did since the load was last read belongs to all rows since then."""
        foreign = self.load.read()
        self.read_s = self.clock()
        self.profile.rows += [row._replace(foreign=foreign) for row in self.unread]
        self.unread = []

    def _try(self, point: Composition) -> Timing | None:
        try:
            return self.measure(point)
        except StepFailure as failure:
            self.failed.add(point)
            self.profile.notes.append(f"{describe(point)} could not be computed: {failure}")
            return None

    def _time_for_another(self, round_s: float, done: int) -> bool:
        spent_s = self.clock() - self.began_s
        if spent_s + round_s <= OVERDRAWN * self.options.budget_s:
            return True
        self.profile.notes.append(
            f"{done} of {self.options.repeats} repeats: steps took longer than the probes said ({spent_s:.0f} s)"
        )
        return False

    def stop(self) -> None:
        """The run was interrupted: keep the rows that were measured since the load was last read."""
        self._attribute()


def describe(point: Composition) -> str:
    """In a few words."""
    parts = []
    if point.decodes:
        parts.append(f"{point.decodes} decodes at {point.decode_context}")
    if point.prompts:
        parts.append(f"{point.prompts} x {point.chunk} tokens of prompt after {point.chunk_before}")
    if point.blocks_out or point.blocks_in:
        parts.append(f"{point.blocks_out} blocks out, {point.blocks_in} in")
    return f"{point.kind} ({', '.join(parts)})"
