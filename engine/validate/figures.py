"""Figures of a validation: request by request, step by step, and over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from engine.validate.steps import REGIONS, Step, comparable, residuals
from twin.latency.model import LatencyModel
from twin.results import style
from twin.results.figures import PANELS
from twin.results.record import Record
from twin.results.thin import Curve, cumulative, over_time
from twin.results.timeweighted import replicas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (style.BLUE, style.GREEN, style.ORANGE, style.RED, style.GREY)
MOST_POINTS = 4000


class Run(Protocol):
    """One half's."""

    @property
    def record(self) -> Record: ...


class Cell(Protocol):
    """A case at a load: the engine's runs, and the simulator's; requests in the same order."""

    @property
    def load(self) -> float: ...
    @property
    def engine(self) -> Sequence[Run]: ...
    @property
    def simulated(self) -> Run | None: ...


def parity_figure(cells: Sequence[Cell]) -> Figure:
    """Each request of a case: the mean of the engine's runs across, the simulator up; on the diagonal they agree."""
    figure, axes = style.figure(11.0, 4.0, 1, len(PANELS))
    figure.subplots_adjust(wspace=0.22)
    for panel, (key, name, unit, factor, _) in zip(axes[0], PANELS, strict=True):
        style.title(panel, name)
        style.label(panel, f"engine ({unit})")
        spans = [_scatter(panel, cell, key, factor, COLOURS[place % len(COLOURS)]) for place, cell in enumerate(cells)]
        seen = [bound for span in spans for bound in span]
        if seen and min(seen) > 0:
            _same_scales(panel, 0.9 * min(seen), 1.1 * max(seen))
    style.label(axes[0][0], f"engine ({PANELS[0][2]})", "simulator")
    axes[0][-1].legend(frameon=False, fontsize=8.5, labelcolor=style.INK, title="load", title_fontsize=8.5)
    return figure


def _same_scales(panel: Axes, least: float, most: float) -> None:
    """Both axes logarithmic and alike, the diagonal between them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panel.plot((least, most), (least, most), color=style.INK, linewidth=0.8, linestyle=(0, (4, 3)))
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(least, most)
    panel.set_ylim(least, most)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0,) if most > 50 * least else (1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())


def _scatter(panel: Axes, cell: Cell, key: str, factor: float, colour: str) -> tuple[float, ...]:
    """Draws the requests that both halves have the quantity of; the least and the greatest value."""
    assert cell.simulated is not None
    engine = np.mean([run.record.requests[key] for run in cell.engine], axis=0) * factor
    simulator = cell.simulated.record.requests[key] * factor
    both = ~np.isnan(engine) & ~np.isnan(simulator)
    panel.plot(engine[both], simulator[both], ".", markersize=4, color=colour, alpha=0.6, label=f"{cell.load:.3g}")
    values = np.concatenate((engine[both], simulator[both]))
    return (float(values.min()), float(values.max())) if len(values) else ()


def residuals_figure(model: LatencyModel, steps: Sequence[Step]) -> Figure:
    """Left: measured over predicted less 1, by what was predicted; right: the same as distributions, by region."""
    figure, axes = style.figure(11.0, 4.0, 1, 2)
    points, shares = axes[0]
    style.title(points, "Step by step")
    style.label(points, "predicted (ms)", "measured / predicted - 1 (%)")
    style.title(shares, "Distribution")
    style.label(shares, "measured / predicted - 1 (%)", "share of steps")
    known = comparable(steps)
    extremes = []
    for region, colour in zip(REGIONS, (style.BLUE, style.ORANGE, style.GREEN), strict=True):
        part = [step for step in known if step.region == region]
        if not part:
            continue
        predicted_s, off = residuals(model, part)
        shown = np.linspace(0, len(part) - 1, min(len(part), MOST_POINTS)).astype(int)
        points.plot(1e3 * predicted_s[shown], 100 * off[shown], ".", markersize=2.5, alpha=0.5, color=colour, label=region)
        across, share = cumulative(100 * off)
        shares.step(across, share, where="post", color=colour, linewidth=1.6, label=f"{region} ({len(part):,})")
        extremes += list(np.percentile(100 * off, (0.5, 99.5)))
    if extremes:
        low, high = min(extremes) - 2, max(extremes) + 2  # single steps that waited for a whole time slice lie beyond
        points.set_ylim(low, high)
        shares.set_xlim(low, high)
        points.axhline(0, color=style.INK, linewidth=0.8)
        style.legend(points, 3)
        style.legend(shares, 3)
    return figure


def load_figure(cells: Sequence[Cell]) -> Figure:
    """Over time, a column a load: who waits, and the blocks in use, of the engine's first run and of the simulator."""
    figure, axes = style.figure(11.0, 4.6, 2, len(cells), sharex="col")
    figure.subplots_adjust(wspace=0.24)
    for column, cell in enumerate(cells):
        assert cell.simulated is not None
        queue, memory = axes[0][column], axes[1][column]
        style.title(queue, f"load {cell.load:.3g}")
        style.label(memory, "time (s)")
        for record, colour, name in (
            (cell.engine[0].record, style.BLUE, "engine"),
            (cell.simulated.record, style.ORANGE, "simulator"),
        ):
            _line(queue, _over_time(record, "waiting"), colour, name)
            _line(memory, _over_time(record, "used_blocks"), colour, name)
        queue.set_ylim(0, max(1.0, queue.get_ylim()[1]))
        memory.set_ylim(bottom=0)
    style.label(axes[0][0], "", "waiting (requests)")
    style.label(axes[1][0], "time (s)", "KV blocks in use")
    axes[0][0].legend(frameon=False, fontsize=8.5, labelcolor=style.INK, loc="upper left")
    return figure


def _over_time(record: Record, column: str) -> Curve:
    (rows,) = replicas(record.steps)
    return over_time(rows, record.steps[column])


def _line(panel: Axes, curve: Curve, colour: str, name: str) -> None:
    panel.plot(curve.times_s, curve.mean, color=colour, linewidth=1.2, alpha=0.85, label=name)
