"""The figure of `twin traces show`: arrivals, burstiness, prompt and output lengths."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from twin.results.style import BLUE, GREY, INK, ORANGE, figure, label, logarithmic, time_axis, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 60  # quantiles known: so many or fewer are drawn as points


@dataclass(frozen=True)
class Curves:
    """What is drawn of a trace: quantiles of its lengths, its burstiness by window (seconds), its rate along time.

    Of a source that is known by a few figures only, the curves are as many points.
    """

    name: str
    levels: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    fano: Mapping[float, float] = field(default_factory=dict)
    rate: float | None = None  # requests/s
    window_s: float = 60.0
    rates: np.ndarray | None = None  # requests/s in windows of `window_s`


def figure_of(name: str, trace: Curves, source: Curves | None) -> "Figure":
    """Four panels; the source in orange, as a curve where all of it is at hand, else as points."""
    made, axes = figure(10.5, 7.4, 2, 2)
    made.subplots_adjust(wspace=0.26, hspace=0.36, top=0.92)
    draw_rates(axes[0, 0], trace, source)
    draw_fano(axes[0, 1], trace, source)
    draw_lengths(axes[1, 0], "prompt_tokens", trace, source)
    draw_lengths(axes[1, 1], "output_tokens", trace, source)
    title(axes[0, 0], f"{name}: arrivals")
    if source is not None:
        keys = [axes[0, 1].plot([], [], color=BLUE)[0], axes[0, 1].plot([], [], color=ORANGE, marker="o", markersize=4)[0]]
        made.legend(keys, [name, source.name], loc="upper right", ncols=2, frameon=False, fontsize=9, labelcolor=INK)
    return made


def draw_rates(axes: "Axes", trace: Curves, source: Curves | None) -> None:
    """Requests/s along time."""
    if trace.rates is None:
        axes.text(0.5, 0.5, "arrivals depend on the run", ha="center", color=GREY, transform=axes.transAxes)
        return
    divisor, unit = time_axis(len(trace.rates) * trace.window_s)
    for curves, colour in ((source, ORANGE), (trace, BLUE)):
        if curves is not None and curves.rates is not None:
            times = np.arange(len(curves.rates) + 1) * curves.window_s / divisor
            axes.step(times, np.append(curves.rates, curves.rates[-1:]), where="post", color=colour, linewidth=1.2)
        elif curves is not None and curves.rate is not None:
            axes.axhline(curves.rate, color=colour, linewidth=1.2, linestyle="--")
    axes.set_ylim(bottom=0)
    label(axes, f"time, {unit}", f"requests/s in {trace.window_s:g} s")


def draw_fano(axes: "Axes", trace: Curves, source: Curves | None) -> None:
    """Variance over mean of the arrivals in a window, by its length."""
    title(axes, "burstiness")
    axes.axhline(1, color=GREY, linewidth=1, linestyle=":")
    axes.annotate("Poisson", (0.99, 1), xycoords=("axes fraction", "data"), ha="right", va="bottom", color=GREY, fontsize=9)
    for curves, colour in ((trace, BLUE), (source, ORANGE)):
        if curves is not None and curves.fano:
            line = "-" if len(curves.fano) > 2 else ""
            axes.plot(list(curves.fano), list(curves.fano.values()), color=colour, marker="o", markersize=4, linestyle=line)
    logarithmic(axes, "x")
    logarithmic(axes, "y")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.5), max(high, 2.0))  # what is nearly Poisson shall look so
    label(axes, "window, s", "variance / mean of the arrivals in it")


def draw_lengths(axes: "Axes", column: str, trace: Curves, source: Curves | None) -> None:
    """The distribution function of a length."""
    title(axes, column.replace("_", " "))
    axes.plot(getattr(trace, column), trace.levels, color=BLUE, linewidth=1.4)
    if source is not None:
        few = len(source.levels) <= FEW
        axes.plot(
            getattr(source, column),
            source.levels,
            color=ORANGE,
            linestyle="" if few else "--",
            marker="o" if few else "",
            markersize=3.5,
            linewidth=1.2,
        )
    logarithmic(axes, "x")
    axes.set_ylim(0, 1.02)
    label(axes, "tokens", "share of requests at most so long")
