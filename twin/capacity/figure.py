"""Pictures of a search: how the objectives rise with the rate, and the capacity by setting as a heat map."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.capacity.files import Cell
from twin.capacity.search import Answer
from twin.results import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (style.BLUE, style.ORANGE, style.GREEN, "#7a5195", "#8a6d3b")
MOST_SHOWN = 2.5  # of what an objective allows
MARGIN = 4.0  # of the capacity: rates further away are left out of the picture


def rates_figure(answer: Answer, title: str = "") -> "Figure":
    """Each objective's share of its limit over the rate, with the seeds' interval; a line where it is used up; the capacity
    with its own interval."""
    figure, axes = style.figure(8.0, 4.4)
    panel = axes[0][0]
    style.title(panel, "What is used of each objective")
    style.label(panel, f"arrival rate (requests/s){title and f', {title}'}", "value over limit")
    probes = [probe for probe in answer.probes if _near(probe.rate, answer.rate)]
    rates = np.array([probe.rate for probe in probes])
    for colour, name in zip(_colours(), probes[0].samples[0].ratios if probes else (), strict=False):
        means, halves = np.array([probe.interval(name) for probe in probes]).T
        panel.errorbar(rates, np.minimum(means, 10 * MOST_SHOWN), yerr=halves, color=colour, linewidth=1.5, marker="o",
                       markersize=3.5, capsize=2.5, elinewidth=0.9, label=name)  # fmt: skip
    levels = [probe.level() for probe in probes if probe.level() <= MOST_SHOWN]
    panel.set_ylim(0, 1.15 * max([1.2, *levels]))
    panel.axhline(1.0, color=style.RED, linewidth=1.2, linestyle=(0, (4, 3)))
    if answer.rate is not None:
        panel.axvline(answer.rate, color=style.INK, linewidth=1.1)
        low, high = answer.low or answer.rate, answer.high or answer.rate
        panel.axvspan(low, high, color=style.GREY, alpha=0.2, linewidth=0)
        panel.annotate(f"{answer.rate:.4g}", (answer.rate, 0.95), xycoords=("data", "axes fraction"), xytext=(5, 0),
                       textcoords="offset points", fontsize=9, color=style.INK)  # fmt: skip
    style.legend(panel, min(4, max(1, len(panel.containers))))
    return figure


def heat_map(cells: Sequence[Cell], axes: Sequence[str]) -> "Figure":
    """The capacity by the first two of the axes; over further ones the best. With one axis it is a single row."""
    across, down = axes[0], axes[1] if len(axes) > 1 else None
    columns = _ordered({cell.setting[across] for cell in cells})
    rows = _ordered({cell.setting[down] for cell in cells}) if down else [""]
    rates = np.full((len(rows), len(columns)), np.nan)
    for cell in cells:
        place = rows.index(cell.setting[down]) if down else 0, columns.index(cell.setting[across])
        rates[place] = np.nanmax([rates[place], cell.rate if cell.answer else np.nan]) if cell.answer else rates[place]
    figure, panels = style.figure(max(5.0, 1.9 + 0.95 * len(columns)), max(2.4, 1.5 + 0.62 * len(rows)))
    panel = panels[0][0]
    panel.grid(False)
    style.title(panel, "Capacity, requests/s", "the best of further options" if len(axes) > 2 else "")
    style.label(panel, across.rpartition(".")[2], (down or "").rpartition(".")[2])
    image = panel.imshow(rates, cmap="viridis", aspect="auto", vmin=0.0, origin="lower")
    panel.set_xticks(range(len(columns)), columns)
    panel.set_yticks(range(len(rows)), rows)
    _write_numbers(panel, rates, float(image.get_clim()[1] or 1.0))
    longest = max(map(len, rows))
    figure.subplots_adjust(left=(0.75 + 0.085 * longest) / figure.get_figwidth())
    return figure


def _write_numbers(panel: Any, rates: np.ndarray, most: float) -> None:
    best = np.nanmax(rates, initial=0.0)
    for (row, column), rate in np.ndenumerate(rates):
        text = "–" if np.isnan(rate) else "none" if rate == 0 else f"{rate:.3g}"
        colour = "black" if rate > 0.6 * most else style.GREY if np.isnan(rate) else "white"
        weight = "bold" if rate == best > 0 else "normal"
        panel.text(column, row, text, ha="center", va="center", fontsize=9, color=colour, fontweight=weight)


def _near(rate: float, capacity: float | None) -> bool:
    return capacity is None or capacity / MARGIN <= rate <= capacity * MARGIN


def _colours() -> Sequence[str]:
    return COLOURS * 10


def _ordered(values: set[str]) -> list[str]:
    """By number where all are numbers, else by letters."""
    keys: Mapping[str, float]
    try:
        keys = {value: float(value) for value in values}
    except ValueError:
        return sorted(values)
    return sorted(values, key=lambda value: keys[value])
