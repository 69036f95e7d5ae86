"""A search for the capacity as it goes on: what it is made of, and what has been found so far."""

import os
import time
from dataclasses import dataclass, field
from typing import Any

from twin.capacity.files import Cell
from twin.capacity.objectives import METRICS, PER_REQUEST, STATISTICS, ObjectiveError, Objectives, objectives_from
from twin.capacity.search import FOUND, Answer, Bounds, Search
from twin.capacity.space import Setting
from twin.cli.capacity_probe import Prober, at_rate, own_rate, warmup
from twin.cli.compose import Composed, compose
from twin.cli.errors import UserError
from twin.cli.job import Job, build
from twin.cli.options import (
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    SWITCH,
    Rule,
    check_options,
    check_rules,
    integer,
    number,
    or_null,
)

ROOT = "capacity"  # the file of conf/ that says what a search is made of
SARATHI_BATCH, SARATHI_CONTEXT = 32, 4096  # of the decode step in which slo.itl_p99_decode_steps counts
SPAN = 1024.0  # between the first rate that is tried and the least or greatest one, by default
BETWEEN = Rule(lambda value: isinstance(value, float) and 0.5 <= value < 1, "a share, at least 0.5 and below 1")
RULES = {
    "capacity.tolerance": number(0.001, 1),
    "capacity.confidence": BETWEEN,
    **{f"capacity.{name}": or_null(POSITIVE) for name in ("from_rate", "least_rate", "most_rate")},
    "capacity.max_probes": integer(1, 10_000),
    "capacity.warmup": Rule(lambda value: NOT_NEGATIVE.allows(value) and value < 1, "a share, at least 0 and below 1"),
    "capacity.steady": SWITCH,
    "capacity.jobs": or_null(integer(1, 1024)),
    "capacity.trials": or_null(integer(1, 100_000)),
    **{f"slo.{metric}_{statistic}": or_null(POSITIVE) for metric in METRICS for statistic in STATISTICS},
    **{f"slo.{name}": or_null(POSITIVE) for name in (*PER_REQUEST, "itl_p99_decode_steps")},
    "slo.attainment": SHARE,
}


@dataclass
class Study:
    """One search over one setting or several."""

    words: list[str]  # of the command line, without those of the axes
    command: str
    first: Composed  # of the first setting
    job: Job  # likewise, with the first seed
    objectives: Objectives
    bounds: Bounds
    prober: Prober
    cells: list[Cell] = field(default_factory=list)
    current: tuple[Setting, Search] | None = None

    @property
    def several(self) -> bool:
        """Whether there is a choice of settings."""
        return any(cell.setting for cell in self.cells)

    @property
    def measured(self) -> str:
        """How much of what is simulated is measured, in words."""
        requests, seeds = len(self.job.trace), self.first.values["seeds"]
        seconds, skipped = warmup(self.first, requests)
        left_out = (
            f"the first {skipped:,} of them" if skipped else f"those of the first {seconds:g} s" if seconds else "none"
        )
        return f"{requests:,} requests with each of {seeds} seed{'s' * (seeds > 1)}, {left_out} left out (warm-up)"

    def search(self, setting: Setting, each: Any = None) -> Cell:
        """The capacity of a setting, which is among `cells` then; `each` is called with every probe.

        Raises what the simulations raise; `keep` saves what was found until then.
        """
        try:
            composed = composed_with(self.words, setting) if setting else self.first

            def measure(rate: float) -> Any:
                probe = self.prober.probe(composed, rate)
                if each is not None:
                    each(probe)
                return probe

            self.prober.alike = False
            search = Search(measure, self._bounds_now())
            self.current = setting, search
            cell = Cell(setting, search.run())
        except UserError as error:
            if not setting or not self.cells:
                raise
            cell = Cell(setting, None, str(error))
        self.current = None
        self.cells.append(cell)
        return cell

    def keep(self) -> None:
        """The search that was broken off becomes a cell, if it tried anything."""
        if self.current is not None and self.current[1].probes:
            setting, search = self.current
            self.cells.append(Cell(setting, search.answer()))
        self.current = None

    def _bounds_now(self) -> Bounds:
        """Begins where the last setting ended: the next is often not far."""
        found = [cell.answer for cell in self.cells if cell.answer and cell.answer.outcome == FOUND]
        last: Answer | None = found[-1] if found else None
        if last is None or last.rate is None:
            return self.bounds
        bounds = self.bounds
        return Bounds(last.rate, bounds.least, bounds.most, bounds.tolerance, bounds.max_probes)


def composed_with(words: list[str], setting: Setting) -> Composed:
    """The command line with a value of each axis."""
    return compose([*words, *(f"{key}={value}" for key, value in setting.items())], root=ROOT)


def study(words: list[str], setting: Setting, command: str) -> Study:
    """Checks and builds all that the first setting needs. Raises UserError."""
    first = composed_with(words, setting)
    values = first.values
    check_options(values)
    check_rules(RULES, values)
    own = values["capacity"]
    job = build(at_rate(first, values["trace"]["rate"], values["seed"]), command)
    job.config |= {name: values[name] for name in ("slo", "output")}
    if job.trace.closed is not None:
        raise UserError(
            "trace.arrivals=closed: such a trace has no rate that could rise; choose open arrivals, poisson(8) say"
        )
    step_s = job.simulation.setup.latency.expected().decode_step_s(SARATHI_BATCH, SARATHI_BATCH * SARATHI_CONTEXT)
    try:
        objectives = objectives_from(values["slo"], step_s)
    except ObjectiveError as error:
        raise UserError(str(error)) from error
    start = own["from_rate"] or values["trace"]["rate"] or own_rate(job)
    least, most = own["least_rate"] or start / SPAN, own["most_rate"] or start * SPAN
    if not least < most:
        raise UserError(f"capacity.least_rate={least:g}: must be below capacity.most_rate, {most:g}")
    limit_s = values["simulate"]["max_wall_s"]
    prober = Prober(
        objectives,
        min(own["jobs"] or os.cpu_count() or 1, values["seeds"]),
        None if limit_s is None else time.monotonic() + limit_s,
    )
    bounds = Bounds(start, least, most, own["tolerance"], own["max_probes"])
    return Study(words, command, first, job, objectives, bounds, prober)
