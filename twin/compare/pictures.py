"""Figures of one scene: distributions, goodput as the SLO tightens, what each user got."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.compare.compare import Comparison
from twin.compare.figures import Measured, by_user, meets
from twin.results import style
from twin.results.thin import cumulative

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.RED, "#7a5ea8", "#8c6239", style.GREY)
LINES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
PANELS = (("ttft_s", "Time to first token", "s", 1.0), ("tpot_s", "Time per output token", "ms", 1e3),
          ("e2e_s", "End to end", "s", 1.0))  # fmt: skip
SCALES = np.geomspace(0.25, 8, 61)
MOST_BARS = 40


def look(number: int) -> dict[str, Any]:
    """Colour and line of the variant of that number; after the colours the lines change."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": LINES[number // len(COLOURS) % len(LINES)]}


def scene_figures(comparison: Comparison) -> Iterator[tuple[str, "Figure"]]:
    """Each by its name, as far as there is something to show."""
    yield "cdf", distributions(comparison)
    if any(each.limits for its in comparison.measured.values() for each in its):
        yield "slo", slo_scales(comparison)
    if any(len(by_user(its[0].rows)) > 1 for its in comparison.measured.values()):
        yield "users", users(comparison)


def distributions(comparison: Comparison) -> "Figure":
    """Cumulative distributions of TTFT, TPOT and E2E over the requests of all seeds, and the SLO where there is one."""
    figure, axes = style.figure(11.0, 3.9, 1, len(PANELS), sharey=True)
    for panel, (key, name, unit, factor) in zip(axes[0], PANELS, strict=True):
        style.title(panel, name)
        style.label(panel, unit)
        greatest = [_curve(panel, _pooled(its, key) * factor, label, place)
                    for place, (label, its) in enumerate(comparison.measured.items())]  # fmt: skip
        limits = {each.limits.get(key) for its in comparison.measured.values() for each in its} - {None}
        for limit in limits:
            assert limit is not None
            panel.axvline(limit * factor, color=style.RED, linewidth=1.1, linestyle=(0, (4, 3)))
            panel.annotate(
                "SLO", (limit * factor, 0.02), xytext=(3, 0), textcoords="offset points", fontsize=8.5, color=style.RED
            )
        _scale(panel, [each for each in greatest if each])
    style.label(axes[0][0], "s", "share of requests")
    _shares(axes[0][0])
    named(figure, axes[0][0], len(comparison.measured))
    return figure


def slo_scales(comparison: Comparison) -> "Figure":
    """Goodput as all limits of the SLO are made tighter or looser by one factor (DistServe, OSDI 2024, figure 9)."""
    figure, axes = style.figure(6.6, 3.9)
    panel = axes[0][0]
    for place, (label, its) in enumerate(comparison.measured.items()):
        curves = []
        for each in its:
            good = [meets(each.rows, {name: limit * scale for name, limit in each.limits.items()}).sum() for scale in SCALES]
            duration_s = each.duration_s()
            curves.append(np.array(good) / duration_s if duration_s > 0 else np.full(len(SCALES), np.nan))
        panel.plot(SCALES, np.mean(curves, axis=0), label=label, linewidth=1.7, **look(place))
    panel.axvline(1.0, color=style.RED, linewidth=1.1, linestyle=(0, (4, 3)))
    panel.set_xscale("log", base=2)
    panel.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["¼", "½", "1", "2", "4", "8"])
    panel.set_ylim(bottom=0)
    limits = next(each.limits for its in comparison.measured.values() for each in its)
    style.title(panel, "Goodput")
    style.label(
        panel, f"times {', '.join(f'{name} {limit:g}' for name, limit in limits.items())}", "requests/s within the SLO"
    )
    named(figure, panel, len(comparison.measured))
    return figure


def users(comparison: Comparison) -> "Figure":
    """Mean latency per token of each user under each variant: dots for few users, a distribution for many."""
    figure, axes = style.figure(11.0, 3.9)
    panel = axes[0][0]
    found = {label: _users(its) for label, its in comparison.measured.items()}
    names = sorted({name for each in found.values() for name in each})
    style.title(panel, "Mean latency of each user", f"{len(names):,} users")
    for place, (label, each) in enumerate(found.items()):
        values = np.array([each.get(name, np.nan) for name in names]) * 1e3
        if len(names) <= MOST_BARS:
            shift = (place - (len(found) - 1) / 2) * 0.6 / len(found)
            panel.plot(
                np.arange(len(names)) + shift, values, "o", markersize=5, label=label, color=COLOURS[place % len(COLOURS)]
            )
        else:
            _curve(panel, values, label, place)
    if len(names) <= MOST_BARS:
        panel.set_xticks(range(len(names)), [name[:14] for name in names], rotation=30 if len(names) > 8 else 0,
                         ha="right" if len(names) > 8 else "center")  # fmt: skip
        style.label(panel, "", "ms per generated token")
        panel.set_ylim(bottom=0)
        figure.subplots_adjust(bottom=0.24 if len(names) > 8 else 0.14)
    else:
        style.label(panel, "ms per generated token", "share of users")
        _shares(panel)
        _scale(panel, [float(np.nanmax(list(each.values()))) * 1e3 for each in found.values() if each])
    named(figure, panel, len(found))
    return figure


def _pooled(its: Sequence[Measured], key: str) -> np.ndarray:
    return np.concatenate([each.rows[key] for each in its])


def _users(its: Sequence[Measured]) -> dict[str, float]:
    """The mean over the seeds."""
    each = [by_user(one.rows) for one in its]
    return {name: float(np.nanmean([one.get(name, np.nan) for one in each])) for name in each[0] if any(
        not np.isnan(one.get(name, np.nan)) for one in each)}  # fmt: skip


def _curve(panel: "Axes", values: np.ndarray, label: str, place: int) -> float:
    """Draws a distribution; returns where it reaches 99 %, 0 where there is none."""
    across, share = cumulative(values)
    if not len(across):
        panel.plot([], [], label=label, **look(place))
        return 0.0
    x, y = np.concatenate((across[:1], across)), np.concatenate(([0.0], share))
    panel.step(x, y, where="post", label=label, linewidth=1.7, **look(place))
    return float(np.percentile(values[~np.isnan(values)], 99))


def _shares(panel: "Axes") -> None:
    from matplotlib.ticker import PercentFormatter

    panel.set_ylim(0, 1.03)
    panel.set_yticks([0, 0.25, 0.5, 0.75, 0.9, 1.0])
    panel.yaxis.set_major_formatter(PercentFormatter(1.0))


def _scale(panel: "Axes", ends: Sequence[float]) -> None:
    """Up to a little beyond the 99th percentile of the slowest; logarithmic where they differ by orders of magnitude."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    if not ends:
        return
    if max(ends) > 20 * min(ends) > 0:
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
    else:
        panel.set_xlim(0, max(ends) * 1.15)


def named(figure: "Figure", panel: "Axes", count: int) -> None:
    """The legend under the figure, in as many columns as fit."""
    handles, labels = panel.get_legend_handles_labels()
    columns = max(1, min(count, int(figure.get_figwidth() * 11 // max(12, max(map(len, labels), default=12) + 6))))
    rows = -(-count // columns)
    height = figure.get_figheight()
    figure.set_figheight(height + 0.24 * rows)
    scale = height / (height + 0.24 * rows)
    bottom, top = figure.subplotpars.bottom, figure.subplotpars.top
    figure.subplots_adjust(bottom=1 - (1 - bottom) * scale, top=1 - (1 - top) * scale)
    figure.legend(handles, labels, loc="lower center", ncols=columns, frameon=False, fontsize=9, labelcolor=style.INK)
