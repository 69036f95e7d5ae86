"""The figures of a run: distributions of its latencies, and memory and queue over time."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from twin.results import style
from twin.results.columns import Table
from twin.results.presentation import number
from twin.results.thin import Curve, cumulative, held, over_time
from twin.results.timeweighted import replicas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = (("ttft_s", "Time to first token", "s", 1.0, style.BLUE),
          ("tpot_s", "Time per output token", "ms", 1e3, style.ORANGE),
          ("e2e_s", "End to end", "s", 1.0, style.GREEN))  # fmt: skip
MARKED = (50, 90, 99)
LAST_MARK = 0.7  # of a panel's width: so far right the last of them may be


def latency_figure(requests: Table, slo: Mapping[str, float | None] | None = None) -> "Figure":
    """Cumulative distributions of TTFT, TPOT and E2E with their p50, p90 and p99, and the SLO where there is one."""
    figure, axes = style.figure(11.0, 3.6, 1, len(PANELS), sharey=True)
    for panel, (key, name, unit, factor, colour) in zip(axes[0], PANELS, strict=True):
        values = requests[key] * factor
        values = values[~np.isnan(values)]
        style.title(panel, name, f"n = {len(values):,}")
        style.label(panel, unit)
        limit = (slo or {}).get(key)
        _distribution(panel, values, colour, None if limit is None else limit * factor, unit)
    style.label(axes[0][0], PANELS[0][2], "share of requests")
    return figure


def load_figure(steps: Table) -> "Figure":
    """Above: KV blocks in use over time, with preemptions marked; below: who runs, waits, is swapped out.

    Of a long run the lines are means over spans of time, with a band from the least to the greatest value.
    """
    figure, axes = style.figure(11.0, 5.2, 2, 1, sharex=True, height_ratios=(1, 1))
    memory, queue = axes[0][0], axes[1][0]
    ends_s = steps["start_s"] + steps["duration_s"]
    divisor, unit = style.time_axis(float(ends_s.max(initial=0.0)))
    _memory(memory, steps, divisor)
    _queue(queue, steps, divisor)
    style.label(queue, f"time ({unit})")
    if len(ends_s):
        memory.set_xlim(left=min(0.0, float(steps["start_s"].min()) / divisor), right=float(ends_s.max()) / divisor)
    return figure


def figures(requests: Table, steps: Table, slo: Mapping[str, float | None] | None = None) -> dict[str, "Figure"]:
    """All figures of a run by the name of their file."""
    return {"latency": latency_figure(requests, slo), "load": load_figure(steps)}


def _distribution(panel: "Axes", values: np.ndarray, colour: str, limit: float | None, unit: str) -> None:
    from matplotlib.ticker import PercentFormatter

    panel.set_ylim(0, 1.03)
    panel.yaxis.set_major_formatter(PercentFormatter(1.0))
    panel.set_yticks([0, 0.25, 0.5, 0.75, 0.9, 1.0])
    if not len(values):
        panel.text(0.5, 0.5, "no request has one", ha="center", transform=panel.transAxes, color=style.GREY, fontsize=9)
        panel.set_xticks([])
        return
    across, share = cumulative(values)
    panel.step(np.concatenate((across[:1], across)), np.concatenate(([0.0], share)), where="post", color=colour,
               linewidth=1.8)  # fmt: skip
    marks = np.percentile(values, MARKED)
    _scale(panel, across[0], across[-1], marks)
    panel.plot(marks, np.array(MARKED) / 100, "o", markersize=4.5, color=colour, markeredgecolor="white",
               markeredgewidth=0.8, zorder=3)  # fmt: skip
    for percent, place in zip(MARKED, marks, strict=True):
        # Below and to the right of a point of a distribution there is always room.
        panel.annotate(f"p{percent}  {number(float(place), 3)}", (place, percent / 100), xytext=(6, -10.5),
                       textcoords="offset points", fontsize=8.5, color=style.INK)  # fmt: skip
    if limit is not None:
        panel.axvline(limit, color=style.RED, linewidth=1.2, linestyle=(0, (4, 3)))
        panel.annotate(f"SLO {limit:g} {unit}", (limit, 0.02), xytext=(4, 0), textcoords="offset points", fontsize=8.5,
                       color=style.RED)  # fmt: skip


def _scale(panel: "Axes", least: float, most: float, marks: np.ndarray) -> None:
    """A logarithmic axis for what spreads over orders of magnitude; room for the label of the last mark."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    middle, last = float(marks[0]), float(marks[-1])
    if least > 0 and last > 20 * middle:
        left = max(least, middle / 30)
        panel.set_xscale("log")
        panel.set_xlim(left, max(most, left * (last / left) ** (1 / LAST_MARK)))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.tick_params(axis="x", which="minor", length=0)
    else:
        left = least if last > least > 0.5 * last else 0.0
        panel.set_xlim(left, max(most, left + (last - left) / LAST_MARK) or 1.0)


def _memory(panel: "Axes", steps: Table, divisor: float) -> None:
    from matplotlib.ticker import PercentFormatter

    style.title(panel, "KV blocks")
    panel.set_ylim(0, 109)
    panel.set_yticks([0, 25, 50, 75, 100])
    panel.yaxis.set_major_formatter(PercentFormatter())
    pool = steps["used_blocks"] + steps["cached_blocks"] + steps["free_blocks"]
    used, cached = 100.0 * steps["used_blocks"] / pool, 100.0 * steps["cached_blocks"] / pool
    rows = replicas(steps)
    for each in rows:
        curve = over_time(each, used[each.at])
        if len(rows) == 1 and cached.any():
            resident = over_time(each, (used + cached)[each.at])
            panel.fill_between(curve.times_s / divisor, curve.mean, resident.mean, color=style.GREY, alpha=0.25,
                               linewidth=0, label="cached prefixes")  # fmt: skip
        _curve(panel, curve, divisor, style.BLUE, "in use" if each is rows[0] else None)
    hit = steps["preempted"] > 0
    if hit.any():
        marks = _marks(steps["start_s"][hit] / divisor)
        panel.plot(marks, np.full(len(marks), 105.0), "|", markersize=6, markeredgewidth=0.9, color=style.RED,
                   label=f"preemptions ({int(steps['preempted'].sum()):,})")  # fmt: skip
    if rows:
        style.legend(panel, 3)


def _queue(panel: "Axes", steps: Table, divisor: float) -> None:
    style.title(panel, "Requests")
    rows = replicas(steps)
    for name, colour in (("running", style.GREEN), ("waiting", style.ORANGE), ("swapped", style.GREY)):
        for each in rows:
            if name != "swapped" or steps["swapped"].any():
                curve = held(each, steps[name][each.at])
                _curve(panel, curve, divisor, colour, name if each is rows[0] else None)
    panel.set_ylim(bottom=0)
    if rows:
        style.legend(panel, 3)


def _curve(panel: "Axes", curve: Curve, divisor: float, colour: str, label: str | None) -> None:
    times = curve.times_s / divisor
    if not curve.exact:
        panel.fill_between(times, curve.low, curve.high, color=colour, alpha=0.22, linewidth=0)
    panel.plot(times, curve.mean, color=colour, linewidth=1.3, label=label)


def _marks(times: np.ndarray, most: int = 800) -> np.ndarray:
    """At most so many of the times, one for each pixel or so in which there is any."""
    width = (times[-1] - times[0]) / most
    if len(times) <= most or width <= 0:
        return times
    return times[np.unique(((times - times[0]) / width).astype(np.int64), return_index=True)[1]]
