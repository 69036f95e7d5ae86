"""Requests as bars over time."""

from typing import TYPE_CHECKING

import numpy as np

from twin.results import style
from twin.results.columns import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PHASES = (("waiting", "arrival_s", "first_scheduled_s", style.ORANGE),
          ("prefill", "first_scheduled_s", "first_token_s", style.BLUE),
          ("decode", "first_token_s", "finish_s", style.GREEN))  # fmt: skip


def timeline_figure(requests: Table, first: int, count: int) -> "Figure":
    """`count` requests from the `first` on, in order of arrival. Raises ValueError where there is none."""
    order = np.argsort(requests["arrival_s"], kind="stable")[first : first + count]
    if first < 0 or not len(order):
        raise ValueError(f"first={first}, count={count}: there are {len(requests['arrival_s']):,} requests, from 0 on")
    figure, axes = style.figure(11.0, max(2.4, 1.0 + 0.11 * len(order)))
    panel = axes[0][0]
    stamps = {name: requests[name][order] for _, *names, _ in PHASES for name in names}
    last_s = np.nanmax(np.concatenate([*stamps.values()]))
    divisor, unit = style.time_axis(float(last_s - np.nanmin(stamps["arrival_s"])))
    rows = np.arange(first, first + len(order))
    for name, begin, end, colour in PHASES:
        start_s, end_s = stamps[begin], stamps[end]
        known = ~np.isnan(start_s) & ~np.isnan(end_s)
        widths = (end_s - start_s)[known] / divisor
        panel.barh(rows[known], widths, left=start_s[known] / divisor, height=0.8, color=colour, linewidth=0, label=name)
    lost = requests["preemptions"][order] > 0
    if lost.any():
        panel.plot(stamps["finish_s"][lost] / divisor, rows[lost], "|", color=style.RED, markersize=5, label="was preempted")
    panel.set_ylim(first + len(order) - 0.5, first - 0.5)
    style.title(panel, "Requests in order of arrival")
    style.label(panel, f"time ({unit})", "request")
    style.legend(panel, 4)
    return figure
