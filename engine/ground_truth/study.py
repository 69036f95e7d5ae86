"""All that is asked of some recorded runs: lockstep with each, step models, and free runs of the simulator.

A run is predicted by a simulator whose step times are fitted to other runs. Of the run itself it knows when requests arrive,
how long prompts and outputs are, what prompts have in common, and the settings. Runs of the same requests under the same
settings are one case: they are predicted once, none of them is in the fit, and how far they lie apart is vLLM's own spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from engine.ground_truth.lockstep import Lockstep, lockstep
from engine.ground_truth.measured import measured, measured_steps
from engine.ground_truth.recording import Recording, RecordingError
from engine.ground_truth.requests_trace import as_asked
from engine.ground_truth.step_model import StepModel
from engine.ground_truth.steps import Alike, alike, outside_range, pooled
from engine.ground_truth.system import setup_of
from engine.validate.capacity import capacity
from engine.validate.comparison import KEYS, OUTSIDE, Row, judge, metrics_at
from engine.validate.steps import Step, StepErrors, step_errors
from traces.transforms.common import moved
from twin.core.errors import PolicyError
from twin.results.record import Record
from twin.results.summary import Summary, summarize
from twin.sim.simulation import Simulation

METRICS = tuple(metric for metric in KEYS if metric != "queue_slope")
SATURATED = "not judged: past saturation"
TOO_FEW = "not judged: too few requests beyond it"
FEWEST_BEYOND = 10  # requests: a percentile that fewer of them lie beyond is that of a few accidents


@dataclass
class Half:
    """One half's run, by the names that the figures of a validation know."""

    record: Record
    summary: Summary = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.summary = summarize(self.record)


@dataclass
class Case:
    """One set of requests, its recorded runs, and the prediction of them."""

    runs: tuple[Recording, ...]
    step_model: StepModel
    load: float  # requests/s over those that the fitted model could serve; inf: all came at once
    engine: list[Half]  # vLLM's runs
    simulated: Half
    steps: list[Step]  # of vLLM's runs
    alike: Alike | None  # steps of the same composition in the runs fitted to and in these
    step_errors: list[StepErrors]
    rows: list[Row] = field(default_factory=list)

    @property
    def name(self) -> str:
        return repeated([run.name for run in self.runs])

    @property
    def beyond_range(self) -> float:
        """Share of vLLM's steps of which the step model knows nothing like it."""
        return outside_range(self.step_model.model, self.steps)


@dataclass(frozen=True)
class Spread:
    """vLLM against itself: how far the farthest of several runs of the same requests lies from their mean, as a share."""

    runs: tuple[str, ...]
    of: Mapping[str, float | None]  # by metric


class Study:
    """`fit` and `predict`: names of runs; None: all that may be."""

    def __init__(
        self,
        runs: Sequence[Recording],
        tolerances: Mapping[str, float],
        fit: Sequence[str] | None = None,
        predict: Sequence[str] | None = None,
    ) -> None:
        """Raises RecordingError for names that there are not, and for what cannot be fitted to or predicted."""
        self.runs, self.tolerances = tuple(runs), tolerances
        self.to_fit, self.to_predict = self._named("fit", fit), self._named("predict", predict)
        for run in self.runs:
            if run.settings.async_scheduling:
                raise RecordingError(
                    f"{run.folder}: asynchronous scheduling was on; only runs with async_scheduling=false can be replayed"
                )
        both = [run.name for run in self.to_predict or () if run in (self.to_fit or ())]
        if both:
            raise RecordingError(f"predict={both[0]}: the step model is fitted to it; a prediction is of another run")
        self._check_alike(self.to_fit or ())
        self.locked: dict[str, Lockstep] = {}
        self.models: dict[tuple[str, ...], StepModel] = {}
        self.cases: list[Case] = []
        self.not_predicted: list[str] = []  # which runs, and why, in words

    def _named(self, option: str, names: Sequence[str] | None) -> tuple[Recording, ...] | None:
        if names is None:
            return None
        there = {run.name: run for run in self.runs}
        for name in names:
            if name not in there:
                raise RecordingError(f"{option}={name}: no run of that name; there are {', '.join(there)}")
        return tuple(there[name] for name in dict.fromkeys(names))

    @staticmethod
    def _check_alike(runs: Sequence[Recording]) -> None:
        for run in runs:
            other = _unlike(run, runs[0])
            if other is not None:
                raise RecordingError(f"fit={run.name}: {other}; one step model is of one of them")

    def lock(self) -> None:
        """Lockstep with every run."""
        for run in self.runs:
            self.locked[run.name] = lockstep(run)

    def predict(self) -> None:
        """Every case that is to be predicted, as far as there is something to fit to."""
        chosen = self.to_predict or tuple(run for run in self.runs if run not in (self.to_fit or ()))
        for runs in grouped(chosen):
            fit = self.to_fit or self._others(runs[0])
            if not fit:
                name = repeated([run.name for run in runs])
                self.not_predicted.append(f"{name}: there is no other run like it to fit step times to")
                continue
            other = _unlike(runs[0], fit[0])
            if other is not None:
                raise RecordingError(f"predict={runs[0].name}: {other}; the step model would be of another machine")
            self.cases.append(self._case(runs, self._model(fit)))

    def spreads(self) -> list[Spread]:
        """Of all requests that were recorded more than once."""
        found = []
        for runs in grouped(self.runs):
            if len(runs) > 1:
                summaries = [Half(measured(run)).summary for run in runs]
                shares = {metric: _spread(summaries, metric) for metric in METRICS}
                found.append(Spread(tuple(run.name for run in runs), shares))
        return found

    def _others(self, predicted: Recording) -> tuple[Recording, ...]:
        return tuple(
            run for run in self.runs if _unlike(run, predicted) is None and not run.has_requests_of(predicted)
        )  # fmt: skip

    def _model(self, runs: tuple[Recording, ...]) -> StepModel:
        key = tuple(run.name for run in runs)
        if key not in self.models:
            self.models[key] = StepModel(runs)
        return self.models[key]

    def _case(self, runs: tuple[Recording, ...], step_model: StepModel) -> Case:
        model = step_model.model
        simulated = Half(simulate(runs[0], step_model))
        steps = [step for run in runs for step in measured_steps(run)]
        engine = [Half(measured(run)) for run in runs]
        fitted = [step for run in self.runs if run.name in step_model.fitted_to for step in measured_steps(run)]
        load = offered_load(runs[0], step_model)
        case = Case(runs, step_model, load, engine, simulated, steps, alike(fitted, steps), step_errors(model, steps))
        for metric in METRICS:
            values = [half.summary[KEYS[metric]] for half in engine]
            row = judge(metric, values, simulated.summary[KEYS[metric]], self.tolerances[metric])
            case.rows.append(row if (why := _not_judged(case, metric)) is None else row._replace(verdict=why))
        return case

    @property
    def step_errors(self) -> list[StepErrors]:
        """By region, of all steps of all predicted runs, each foretold by the model that had not seen its run."""
        return pooled([(case.step_model.model, case.steps) for case in self.cases])

    # --- verdicts

    def wrong(self) -> list[str]:
        """Everything that is not as it should be, a line each; empty: the simulator is right."""
        lines = []
        for name, locked in self.locked.items():
            if locked.difference is not None:
                lines.append(f"{name}: decisions differ first in step {locked.difference.step} of {locked.steps:,}")
            lines += [f"{name}: {words}" for words in locked.requests]
        for each in self.step_errors:
            if each.region == "all" and each.mape > self.tolerances["step_mape"]:
                lines.append(
                    f"step times: off by {100 * each.mape:.1f} % (mean absolute, over {each.steps:,} steps), tolerance "
                    f"{100 * self.tolerances['step_mape']:g} %"
                )
        return lines + [_outside(case, row) for case in self.cases for row in case.rows if row.verdict == OUTSIDE]


def _not_judged(case: Case, metric: str) -> str | None:
    """Why this figure is shown only, in words."""
    if metric not in metrics_at(case.load):
        return SATURATED
    percentile = int(metric[metric.rindex("p") + 1 :]) if metric[-2:].isdigit() else 0
    beyond = len(case.runs[0].requests) * (100 - percentile) / 100
    return TOO_FEW if percentile and beyond < FEWEST_BEYOND else None


def _outside(case: Case, row: Row) -> str:
    if row.error is None:
        return f"{case.name}: {row.metric} is not known of both halves"
    spread = "" if row.spread is None else f", vLLM's own spread {100 * row.spread:.1f} %"
    return f"{case.name}: {row.metric} off by {100 * row.error:+.1f} %, tolerance {100 * row.tolerance:g} %{spread}"


def repeated(names: Sequence[str]) -> str:
    """`load06 x 2` for two runs of the same requests."""
    return names[0] if len(names) == 1 else f"{names[0]} x {len(names)}"


def _unlike(run: Recording, other: Recording) -> str | None:
    """In words, why their step times have nothing in common; None: they do."""
    for name in dict.fromkeys([*run.settings.about, *other.settings.about]):
        one, another = run.settings.about.get(name), other.settings.about.get(name)
        if one != another:
            return f"{run.name} is of {name} {one}, {other.name} of {another}"
    return None


def grouped(runs: Sequence[Recording]) -> list[tuple[Recording, ...]]:
    """Runs of the same requests under the same settings together, in their order."""
    groups: list[list[Recording]] = []
    for run in runs:
        group = next((group for group in groups if run.asks_the_same_as(group[0])), None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    return [tuple(group) for group in groups]


def _spread(summaries: Sequence[Summary], metric: str) -> float | None:
    values = [summary[KEYS[metric]] for summary in summaries]
    if None in values:
        return None
    mean = float(np.mean(values))
    return max(abs(value - mean) for value in values) / abs(mean) if mean else None


def simulate(recording: Recording, step_model: StepModel, at_once: bool = False) -> Record:
    """The simulator on the recording's requests, by its own clock; `at_once`: as a burst. Raises RecordingError."""
    trace = as_asked(recording)
    if at_once:
        trace = replace(moved(trace, np.full(len(trace), float(trace.arrival_s[0]))), deadline_s=None)
    try:
        outcome = Simulation(setup_of(recording, step_model.model), trace).run()
    except (PolicyError, ValueError) as error:
        raise RecordingError(f"{recording.folder}: cannot be simulated: {error}") from error
    return Record(**vars(outcome))


def offered_load(recording: Recording, step_model: StepModel) -> float:
    """Requests that come a second over those that the simulated system could serve: what it does while it lacks no work."""
    arrival_s = np.sort([row.arrival_s for row in recording.requests])
    span_s = float(arrival_s[-1] - arrival_s[0])
    if span_s <= 0:
        return np.inf if len(arrival_s) > 1 else 0.0
    most = capacity(simulate(recording, step_model, at_once=True)).requests_per_s
    return (len(arrival_s) - 1) / span_s / most
