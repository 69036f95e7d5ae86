"""The comparison of the variants of a scene: every figure with its interval, every difference to the baseline, paired."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twin.compare.figures import Figure, Measured, Rows, by_user, figures, measured, utilisation
from twin.compare.intervals import Interval, of_independent, of_replicates, of_sections
from twin.compare.kept import Options, kept_rows, seeds_of
from twin.compare.traces import Scene, closed
from twin.compare.variants import Variant
from twin.results.columns import FINISHED
from twin.results.load import Run

EQUAL, BETTER, WORSE, UNSURE, UNKNOWN = "equal", "better", "worse", "not significant", "no interval"
LOWER, HIGHER = "lower", "higher"  # of figures that are neither good nor bad
PAIRED = ("ttft_s", "tpot_s", "e2e_s")


@dataclass(frozen=True)
class Row:
    """A figure of a variant, and how it differs from the baseline's (None: it is the baseline)."""

    scene: str
    figure: Figure
    variant: str
    value: Interval
    difference: Interval | None
    verdict: str

    @property
    def relative(self) -> float | None:
        """The difference as a share of the baseline's figure."""
        if self.difference is None or not (base := self.value.value - self.difference.value):
            return None
        return self.difference.value / abs(base)


@dataclass(frozen=True)
class Pairs:
    """The same requests under a variant and under the baseline: how much later (positive) the variant is, seconds."""

    variant: str
    column: str
    pairs: int
    mean: Interval
    median: float
    sooner: float  # share of the pairs
    equal: float
    best: float
    worst: float


@dataclass
class Comparison:
    """All that is known of a scene."""

    scene: Scene
    baseline: str
    confidence: float
    rows: list[Row]
    pairs: list[Pairs]
    measured: dict[str, list[Measured]]  # by variant, a run a seed
    warmup: str  # the rule and what it left out, in words
    notes: list[str]
    identical: list[str]  # variants that served every request at the baseline's times


def compare(scene: Scene, options: Options) -> Comparison:
    """Raises ValueError for a baseline that is no variant here."""
    base = _baseline(scene, options.baseline)
    limits = options.limits or slo_of(base.first())
    kept, told, notes = kept_rows(scene, options)
    runs = {
        variant.label: [measured(variant.runs[seed], kept[variant.label, seed], limits) for seed in seeds_of(scene, variant)]
        for variant in scene.variants
    }
    users = any(len(by_user(each.rows)) > 1 for each in runs[base.label])
    rows, pairs, identical = [], [], []
    for figure in figures(limits, users):
        rows += list(_rows(scene, figure, base.label, runs, options.confidence))
    for label, its in runs.items():
        if label != base.label and scene.paired:
            pairs += list(_pairs(label, its, runs[base.label], options.confidence))
            if all(_same(a, b) for a, b in zip(its, runs[base.label], strict=True)):
                identical.append(label)
    notes = [*scene.notes, *notes, *_saturation(runs)]
    if any(row.value.correlated or (row.difference and row.difference.correlated) for row in rows):
        notes.append("tenths of a run are still correlated: some intervals may be too narrow; longer runs, or seeds=5, tell")
    return Comparison(scene, base.label, options.confidence, rows, pairs, runs, told, notes, identical)


def slo_of(run: Run) -> dict[str, float]:
    """The limits of a run's own configuration, the tighter of the two names that each may have."""
    given = run.config.get("slo") or {}
    limits = {}
    for metric in ("ttft", "tpot", "e2e"):
        named = [limit for kind in ("s", "p99") if (limit := given.get(f"{metric}_{kind}")) is not None]
        if named:
            limits[f"{metric}_s"] = float(min(named))
    return limits


def _baseline(scene: Scene, asked: str | None) -> Variant:
    if asked is None:
        return scene.variants[0]
    for variant in scene.variants:
        if asked in (variant.label, variant.path.name, str(variant.path)):
            return variant
    raise ValueError(f"baseline={asked}: no such variant (there are {'; '.join(scene.labels())})")


class _Part(dict[str, np.ndarray]):
    """Columns of some of the rows, each cut out when it is asked for."""

    def __init__(self, rows: Rows, index: np.ndarray) -> None:
        super().__init__()
        self._rows, self._index = rows, index

    def __missing__(self, name: str) -> np.ndarray:
        self[name] = self._rows[name][self._index]
        return self[name]


def _rows(
    scene: Scene, figure: Figure, base: str, runs: Mapping[str, Sequence[Measured]], confidence: float
) -> Iterator[Row]:
    values = {label: [_value(figure, each) for each in its] for label, its in runs.items()}
    if all(np.isnan(value) for its in values.values() for value in its):
        return
    own = {label: _interval(figure, its, values[label], confidence) for label, its in runs.items()}
    for label, its in runs.items():
        difference = None
        if label != base:
            if not scene.paired:
                difference = of_independent(own[base], own[label], confidence)
            else:
                difference = _difference(figure, its, runs[base], values[label], values[base], confidence)
        yield Row(scene.name, figure, label, own[label], difference, _verdict(figure, difference))


def _value(figure: Figure, each: Measured) -> float:
    if figure.of_rows is not None:
        return figure.of_rows(each.rows)
    assert figure.of_run is not None
    return figure.of_run(each)


def _interval(figure: Figure, its: Sequence[Measured], values: Sequence[float], confidence: float) -> Interval:
    if len(its) > 1:
        return of_replicates(values, confidence)
    if (statistic := figure.of_rows) is None:
        return Interval(values[0], None)
    rows = its[0].rows
    index = np.arange(len(rows["arrival_s"]))
    return of_sections(index, lambda part: statistic(_Part(rows, part)), figure.least, confidence)


def _difference(
    figure: Figure,
    its: Sequence[Measured],
    base: Sequence[Measured],
    values: Sequence[float],
    base_values: Sequence[float],
    confidence: float,
) -> Interval:
    """Seed by seed, or over the same stretches of the same requests."""
    if len(its) > 1:
        return of_replicates([a - b for a, b in zip(values, base_values, strict=True)], confidence)
    if (statistic := figure.of_rows) is None:
        return Interval(values[0] - base_values[0], None)
    mine, theirs = its[0].rows, base[0].rows
    index = np.arange(len(mine["arrival_s"]))

    def apart(part: np.ndarray) -> float:
        return statistic(_Part(mine, part)) - statistic(_Part(theirs, part))

    return of_sections(index, apart, figure.least, confidence)


def _verdict(figure: Figure, difference: Interval | None) -> str:
    if difference is None or np.isnan(difference.value):
        return ""
    if difference.value == 0 and not difference.half:
        return EQUAL
    if (sure := difference.excludes_zero()) is None:
        return UNKNOWN
    if not sure:
        return UNSURE
    up = difference.value > 0
    if not figure.better:
        return HIGHER if up else LOWER
    return BETTER if up == (figure.better > 0) else WORSE


def _pairs(label: str, its: Sequence[Measured], base: Sequence[Measured], confidence: float) -> Iterator[Pairs]:
    for column in PAIRED:
        each = [mine.rows[column] - theirs.rows[column] for mine, theirs in zip(its, base, strict=True)]
        each = [later[~np.isnan(later)] for later in each]
        later = np.concatenate(each)
        if not len(later):
            continue
        if len(each) > 1:
            mean = of_replicates([float(part.mean()) if len(part) else np.nan for part in each], confidence)
        else:
            mean = of_sections(later, lambda part: float(part.mean()), confidence=confidence)
        yield Pairs(label, column, len(later), mean, float(np.median(later)), float((later < 0).mean()),
                    float((later == 0).mean()), float(later.min()), float(later.max()))  # fmt: skip


def _same(a: Measured, b: Measured) -> bool:
    columns = ("status", "first_scheduled_s", "first_token_s", "finish_s", "generated_tokens", "preemptions")
    return all(np.array_equal(a.rows[name], b.rows[name], equal_nan=a.rows[name].dtype.kind == "f") for name in columns)


def _saturation(runs: Mapping[str, Sequence[Measured]]) -> list[str]:
    """Which variants cannot keep up: their latencies grow with the length of the run."""
    notes = []
    for label, its in runs.items():
        over = [each for each in its if each.run.summary.get("saturated")]
        if not over:
            continue
        shares = [_busy(each) for each in its]
        slopes = [slope for each in over if (slope := each.run.summary.get("queue_slope_per_s")) is not None]
        grows = f", the queue grows by {np.mean(slopes):.3g} requests/s" if slopes and np.mean(slopes) > 0 else ""
        many = f" in {len(over)} of {len(its)} seeds" if len(its) > 1 else ""
        means = "its latencies grow with the length of the run and say nothing of a steady state"
        if closed(its[0].run):
            means = "in a closed loop its latencies are those of so many users, and never grow beyond"
        notes.append(f"{label} is saturated{many}: busy {100 * float(np.mean(shares)):.1f} % of the time{grows}; {means}")
    return notes


def _busy(each: Measured) -> float:
    return utilisation(each.run.steps, *each.arrivals_s())


def unserved(its: Sequence[Measured]) -> int:
    """Requests that did not finish."""
    return sum(int((each.rows["status"] != FINISHED).sum()) for each in its)
