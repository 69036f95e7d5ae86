"""Figures over the scenes of a sweep: latency against throughput with its knee, goodput by load, the Pareto front."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twin.compare.compare import Comparison
from twin.compare.fronts import knee, pareto
from twin.compare.intervals import Interval
from twin.compare.pictures import COLOURS, look, named
from twin.results import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEWEST = 3  # loads that make a curve
PANELS = (("e2e_s_mean", "End to end, mean", "s", 1.0), ("ttft_s_p99", "Time to first token, p99", "s", 1.0),
          ("tpot_s_p99", "Time per output token, p99", "ms", 1e3))  # fmt: skip


class Point(NamedTuple):
    """A variant at one load."""

    load: float
    figures: dict[str, Interval]

    def value(self, key: str) -> float:
        """nan where it is not defined."""
        return self.figures[key].value if key in self.figures else float("nan")


def load_axis(comparisons: Sequence[Comparison]) -> str | None:
    """The swept number that makes the scenes differ: trace.rate, else another of the trace; None: there is none."""
    names = [name for each in comparisons for name in each.scene.variants[0].settings]
    for name in sorted(dict.fromkeys(names), key=lambda name: (name != "trace.rate", not name.startswith("trace"))):
        values = [each.scene.variants[0].settings.get(name) for each in comparisons]
        if name.startswith("trace") and len(set(values)) > 1 and all(type(value) in (int, float) for value in values):
            return name
    return None


def curves(comparisons: Sequence[Comparison], axis: str) -> dict[str, list[Point]]:
    """The points of each variant, by load."""
    found: dict[str, list[Point]] = {}
    for each in comparisons:
        for variant in each.scene.variants:
            figures = {row.figure.key: row.value for row in each.rows if row.variant == variant.label}
            label = _without(variant.settings, axis) or variant.label
            found.setdefault(label, []).append(Point(float(variant.settings[axis]), figures))
    return {label: sorted(points, key=lambda point: point.load) for label, points in found.items()}


def knees(found: dict[str, list[Point]]) -> dict[str, float | None]:
    """The load at which each variant's power is greatest."""
    at = {}
    for label, points in found.items():
        place = knee(
            [point.value("request_throughput") for point in points], [point.value("e2e_s_mean") for point in points]
        )
        at[label] = None if place is None else points[place].load
    return at


def sweep_figures(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, "Figure"]]:
    """Each by its name, as far as there is something to show."""
    axis = load_axis(comparisons)
    if axis is not None:
        found = curves(comparisons, axis)
        if max(map(len, found.values())) >= FEWEST:
            yield "latency_throughput", latency_throughput(found)
            if any("goodput" in point.figures for points in found.values() for point in points):
                yield "goodput", goodput(found, axis)
    if sum(len(each.scene.variants) for each in comparisons) > 1:
        yield "pareto", front(comparisons)


def latency_throughput(found: dict[str, list[Point]]) -> "Figure":
    """Latency by what was served, a curve a variant; a ring at the knee."""
    figure, axes = style.figure(11.0, 3.9, 1, len(PANELS))
    at = knees(found)
    for panel, (key, name, unit, factor) in zip(axes[0], PANELS, strict=True):
        for place, (label, points) in enumerate(found.items()):
            x = [point.value("request_throughput") for point in points]
            y = [point.value(key) * factor for point in points]
            _with_bars(panel, x, points, key, factor, label, place)
            rings = [(a, b) for a, b, point in zip(x, y, points, strict=True) if point.load == at[label]]
            for ring in rings:
                panel.plot(*ring, "o", markersize=11, markerfacecolor="none", markeredgecolor=COLOURS[place % len(COLOURS)])
        _logarithmic(panel)
        style.title(panel, name)
        style.label(panel, "requests/s served", unit)
        panel.set_xlim(left=0)
    figure.subplots_adjust(wspace=0.28)
    named(figure, axes[0][0], len(found))
    return figure


def goodput(found: dict[str, list[Point]], axis: str) -> "Figure":
    """Requests a second that met the SLO, by load."""
    figure, axes = style.figure(6.6, 3.9)
    panel = axes[0][0]
    for place, (label, points) in enumerate(found.items()):
        _with_bars(panel, [point.load for point in points], points, "goodput", 1.0, label, place)
    style.title(panel, "Goodput")
    style.label(panel, axis, "requests/s within the SLO")
    panel.set_ylim(bottom=0)
    named(figure, panel, len(found))
    return figure


def front(comparisons: Sequence[Comparison]) -> "Figure":
    """Output tokens per second against the p99 of the time to first token; the line joins what nothing else beats."""
    figure, axes = style.figure(6.6, 4.2)
    panel = axes[0][0]
    points: list[tuple[float, float]] = []
    names: list[str] = []
    for each in comparisons:
        for variant in each.scene.variants:
            values = {row.figure.key: row.value.value for row in each.rows if row.variant == variant.label}
            points.append((values.get("ttft_s_p99", np.nan), values.get("output_token_throughput", np.nan)))
            names.append(variant.label)
    labels = list(dict.fromkeys(names))
    for place, label in enumerate(labels):
        mine = [point for point, name in zip(points, names, strict=True) if name == label]
        panel.plot(*zip(*mine, strict=True), "o", markersize=6, label=label, color=COLOURS[place % len(COLOURS)])
    best = pareto([point[0] for point in points], [point[1] for point in points])
    panel.plot(*zip(*(points[place] for place in best), strict=True), color=style.GREY, linewidth=1.2, zorder=0)
    _logarithmic(panel, "x")
    style.title(panel, "Pareto front", "up and to the left is better")
    style.label(panel, "time to first token, p99 (s)", "output tokens/s")
    panel.set_ylim(bottom=0)
    named(figure, panel, len(labels))
    return figure


def _with_bars(panel: "Axes", x: list[float], points: list[Point], key: str, factor: float, label: str, place: int) -> None:
    """A curve with the intervals of its points, where they have any."""
    y = np.array([point.value(key) for point in points]) * factor
    halves = [point.figures[key].half if key in point.figures else None for point in points]
    bars = np.array([0.0 if half is None else half for half in halves]) * factor
    low = np.minimum(bars, 0.999 * np.abs(y))  # a logarithmic axis has no 0
    panel.errorbar(x, y, yerr=[low, bars], label=label, linewidth=1.6, marker="o", markersize=4, capsize=2, elinewidth=0.9,
                   **look(place))  # fmt: skip


def _logarithmic(panel: "Axes", which: str = "y") -> None:
    """Where the values spread over orders of magnitude."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis = panel.yaxis if which == "y" else panel.xaxis
    column = 1 if which == "y" else 0
    drawn = [np.asarray(line.get_xydata(), dtype=np.float64).reshape(-1, 2)[:, column] for line in panel.lines]
    values = np.concatenate(drawn)
    values = values[np.isfinite(values) & (values > 0)]
    if len(values) and values.max() > 20 * values.min():
        panel.set_yscale("log") if which == "y" else panel.set_xscale("log")
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())
    elif which == "y":
        panel.set_ylim(bottom=0)


def _without(settings: dict[str, object], axis: str) -> str:
    from twin.compare.variants import setting_words

    return setting_words({name: value for name, value in settings.items() if name != axis})
