"""A validation from its first run to its last: what is played in which order, and what is known of it at any time.

First each trace is played under the first policy as a burst, for the capacity. Then each case is played at each load once
with its decisions on record, for lockstep. Then come the rounds. In each of them every case is played at every load once,
for time; between these runs others are played, of other requests: each trace as a burst and at the loads below saturation.
To the steps of these the latency model is fitted, in which no request that is judged has any part. So a change of the
machine over the hours, and over the minutes of a round, is in the latency model as it is in the runs that are judged, and in
the spread of these. Each round begins elsewhere, so that what comes first or last is not always the same load.

The simulator comes last, when there is nothing left to measure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.errors import EngineError
from engine.lockstep import Difference
from engine.validate.capacity import Capacity, capacity
from engine.validate.comparison import SATURATED, Row, compare
from engine.validate.fit import fit_runs
from engine.validate.laboratory import Arrivals, Case, Laboratory, Played, all_at_once, at_rate
from engine.validate.options import Options
from engine.validate.steps import Step, StepErrors, step_errors
from twin.calibrate.steps import About
from twin.latency.model import LatencyModel

HALF = 0.5  # of the capacity: the load of the fit where none is judged below saturation
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Lockstep:
    """One run of the engine against its replay."""

    steps: int
    difference: Difference | None


@dataclass
class Cell:
    """A case at a load, as far as it has been played."""

    case: Case
    load: float
    rate: float  # requests/s
    lockstep: Lockstep | None = None
    engine: list[Played] = field(default_factory=list)
    simulated: Played | None = None

    def rows(self, options: Options) -> list[Row]:
        """The comparison; none before both halves have run."""
        if not self.engine or self.simulated is None:
            return []
        return compare(
            self.load, self.rate, [run.summary for run in self.engine], self.simulated.summary, options.tolerances
        )


class Fit(NamedTuple):
    """A run that the latency model is fitted to. `load` None: a burst."""

    case: Case
    load: float | None

    def __str__(self) -> str:
        return f"{self.case}, {'burst' if self.load is None else f'load {self.load:g}'}"


def evenly(fits: Sequence[Fit], cells: Sequence[Cell]) -> list[Fit | Cell]:
    """Both in their own order, each spread over the whole as evenly as the numbers allow; a fit comes before a cell."""
    fit_places = [((2 * place + 1) * len(cells), 0, place) for place in range(len(fits))]
    cell_places = [((2 * place + 1) * len(fits), 1, place) for place in range(len(cells))]
    return [cells[place] if judged else fits[place] for _, judged, place in sorted(fit_places + cell_places)]


@dataclass
class Matrix:
    """All of it."""

    laboratory: Laboratory
    cases: Sequence[Case]  # policies on traces
    options: Options
    latency: LatencyModel | None = None  # the user's, else fitted
    tell: Tell = lambda line: None
    capacities: dict[str, Capacity] = field(default_factory=dict)  # by trace
    fitted_to: list[tuple[str, list[Step]]] = field(default_factory=list)  # name of a run, its steps
    latency_file: dict[str, Any] | None = None  # content of one, if the model was fitted here
    cells: list[Cell] = field(default_factory=list)
    complete: bool = False
    runs: list[tuple[str, str | None]] = field(default_factory=list)  # of the engine: which, and what others did meanwhile

    def run(self) -> None:
        """All runs of the engine; what has been played is kept. Raises KeyboardInterrupt, PolicyError, EngineError."""
        for case in self._first_of_each_trace():
            self._measure_capacity(case)
        for case in self.cases:
            for load in self.options.loads:
                self.cells.append(Cell(case, load, load * self.capacities[case.trace].requests_per_s))
        for cell in self.cells:
            self.tell(f"lockstep: {cell.case}, load {cell.load:g}")
            difference, steps = self.laboratory.lockstep(cell.case, at_rate(cell.rate))
            cell.lockstep = Lockstep(steps, difference)
        for repeat in range(self.options.repeats):
            fits = self._fits_of_round(repeat) if self.latency is None else []
            first = repeat * len(self.cells) // self.options.repeats
            for each in evenly(fits, [*self.cells[first:], *self.cells[:first]]):
                if isinstance(each, Fit):
                    self._play_for_the_fit(each)
                else:
                    what = f"{each.case}, load {each.load:g}, run {repeat + 1} of {self.options.repeats}"
                    each.engine.append(self._played(what, each.case, at_rate(each.rate)))
        self.complete = True

    @property
    def worth_saving(self) -> bool:
        return any(cell.engine for cell in self.cells)

    def conclude(self) -> None:
        """The simulator's part, of all cells that the engine has played. Raises EngineError."""
        self.latency = self.latency or self._fitted()
        for cell in self.cells:
            if cell.engine:
                cell.simulated = self.laboratory.in_simulator(cell.case, at_rate(cell.rate), self.latency)

    def holdout(self) -> list[StepErrors]:
        """The latency model on the steps of the runs that are judged."""
        assert self.latency is not None
        return step_errors(self.latency, self.judged_steps())

    def judged_steps(self) -> list[Step]:
        return [step for cell in self.cells for run in cell.engine for step in run.steps]

    def _first_of_each_trace(self) -> list[Case]:
        return list({case.trace: case for case in reversed(self.cases)}.values())[::-1]

    def _measure_capacity(self, case: Case) -> None:
        """The first burst is not looked at: caches are cold, and libraries are still being loaded."""
        self.tell(f"{case}: warming up")
        self.laboratory.on_engine(case, all_at_once)
        burst = self._played(f"{case}, burst for the capacity", case, all_at_once)
        if not burst.summary["finished"]:
            raise EngineError(f"{case}: none of {burst.summary['requests']} requests finished; {_why(burst)}")
        self.capacities[case.trace] = capacity(burst.record)

    def _fits_of_round(self, repeat: int) -> list[Fit]:
        """Each trace as a burst and at each load below saturation, under the policies in turn: these cost time too."""
        loads = [load for load in self.options.loads if load < SATURATED] or [HALF]
        fits = []
        for trace in self.capacities:
            cases = [case for case in self.cases if case.trace == trace]
            for place, load in enumerate((None, *loads)):
                fits.append(Fit(cases[(repeat + place) % len(cases)], load))
        return fits

    def _play_for_the_fit(self, fit: Fit) -> None:
        arrivals = all_at_once if fit.load is None else at_rate(fit.load * self.capacities[fit.case.trace].requests_per_s)
        played = self._played(f"{fit} for the latency model", fit.case, arrivals, others=True)
        self.fitted_to.append((str(fit), played.steps))

    def _fitted(self) -> LatencyModel:
        config = self.cases[0].job.config
        loaded = self.laboratory.backend.loaded
        assert loaded is not None
        limits = self.cases[0].job.simulation.setup.limits
        about = About(
            model=config["model"]["name"],
            gpu="cpu" if loaded.device.type == "cpu" else config["gpu"]["name"],
            max_num_seqs=limits.max_num_seqs,
            max_num_batched_tokens=limits.max_num_batched_tokens,
        )
        steps = sum(len(steps) for _, steps in self.fitted_to)
        source = f"{steps} steps of the engine: {'; '.join(dict.fromkeys(name for name, _ in self.fitted_to))}"
        model, self.latency_file = fit_runs(self.fitted_to, about, source)
        return model

    def _played(self, what: str, case: Case, arrivals: Arrivals, others: bool = False) -> Played:
        self.tell(what)
        played = self.laboratory.on_engine(case, arrivals, others=others)
        self.runs.append((what, played.foreign))
        return played


def _why(played: Played) -> str:
    return str(next((reason for reason in played.record.requests["reason"] if reason), "no reason is known"))
