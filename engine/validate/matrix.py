"""A validation from its first run to its last: what is played in which order, and what is known of it at any time.

First each trace is played under the first policy, as a burst and at half of the capacity that the burst has shown: to these
steps the latency model is fitted, which no run that is judged has any part in. Then each case is played at each load once
with its decisions on record, for lockstep, and `repeats` times without, for time. Repeats are interleaved: all cases at all
loads once, then all of them again, so that the spread of the repeats has in it how the machine changes over the hours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.errors import EngineError
from engine.lockstep import Difference
from engine.validate.capacity import Capacity, capacity
from engine.validate.comparison import Row, compare
from engine.validate.fit import fit_runs
from engine.validate.laboratory import Case, Laboratory, Played, all_at_once, at_rate
from engine.validate.options import Options
from engine.validate.steps import Step, StepErrors, step_errors
from twin.calibrate.steps import About
from twin.latency.model import LatencyModel

HALF = 0.5  # of the capacity: the second run that the latency model is fitted to
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
    simulated: Played
    lockstep: Lockstep | None = None
    engine: list[Played] = field(default_factory=list)

    def rows(self, options: Options) -> list[Row]:
        """The comparison; none before the engine has run."""
        if not self.engine:
            return []
        return compare(self.load, [run.summary for run in self.engine], self.simulated.summary, options.tolerances)


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
        """To the end. Interrupted, it keeps what has been played. Raises KeyboardInterrupt, PolicyError, EngineError."""
        for case in self._first_of_each_trace():
            self._warm_up(case)
        model = self.latency or self._fitted()
        self.latency = self.laboratory.latency = model
        for case in self.cases:
            for load in self.options.loads:
                rate = load * self.capacities[case.trace].requests_per_s
                self.cells.append(Cell(case, load, rate, self.laboratory.in_simulator(case, at_rate(rate))))
        for cell in self.cells:
            self.tell(f"lockstep: {cell.case}, load {cell.load:g}")
            difference, steps = self.laboratory.lockstep(cell.case, at_rate(cell.rate))
            cell.lockstep = Lockstep(steps, difference)
        for repeat in range(self.options.repeats):
            for cell in self.cells:
                what = f"{cell.case}, load {cell.load:g}, run {repeat + 1} of {self.options.repeats}"
                self.tell(what)
                cell.engine.append(self._noted(what, self.laboratory.on_engine(cell.case, at_rate(cell.rate))))
        self.complete = True

    def holdout(self) -> list[StepErrors]:
        """The latency model on the steps of the runs that are judged."""
        assert self.latency is not None
        return step_errors(self.latency, self.judged_steps())

    def judged_steps(self) -> list[Step]:
        return [step for cell in self.cells for run in cell.engine for step in run.steps]

    def _first_of_each_trace(self) -> list[Case]:
        return list({case.trace: case for case in reversed(self.cases)}.values())[::-1]

    def _warm_up(self, case: Case) -> None:
        """The first burst is not looked at: caches are cold, and libraries are still being loaded."""
        self.tell(f"{case}: warming up")
        self.laboratory.on_engine(case, all_at_once)
        self.tell(f"{case}: a burst, for the capacity")
        burst = self._noted(f"{case}, burst", self.laboratory.on_engine(case, all_at_once))
        if not burst.summary["finished"]:
            raise EngineError(f"{case}: none of {burst.summary['requests']} requests finished; {_why(burst)}")
        self.capacities[case.trace] = capacity(burst.record)
        self.fitted_to.append((f"{case.trace}, burst", burst.steps))
        if self.latency is None:
            self.tell(f"{case}: at half of the capacity, for the latency model")
            rate = HALF * self.capacities[case.trace].requests_per_s
            half = self.laboratory.on_engine(case, at_rate(rate), skip_idle=True)
            self.fitted_to.append((f"{case.trace}, load {HALF:g}", self._noted(f"{case}, load {HALF:g}", half).steps))

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
        source = f"{steps} steps of the engine: {'; '.join(name for name, _ in self.fitted_to)}"
        model, self.latency_file = fit_runs(self.fitted_to, about, source)
        return model

    def _noted(self, what: str, played: Played) -> Played:
        self.runs.append((what, played.foreign))
        return played


def _why(played: Played) -> str:
    return str(next((reason for reason in played.record.requests["reason"] if reason), "no reason is known"))
