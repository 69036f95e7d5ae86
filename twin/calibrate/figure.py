"""Residuals of held-out steps, for the eye: what is left when the model has said all it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twin.calibrate.judge import Judgement, region_masks
from twin.results import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 4000  # of a kind; more are one blot
FEW_POINTS = 300  # up to so many are drawn larger
COLOURS = {"decode": style.BLUE, "prefill": style.ORANGE, "mixed": style.GREEN}
BAND = 5.0  # percent, shaded


def residual_figure(judgement: Judgement) -> Figure:
    """Error in percent over the step's duration, over its tokens and over the context of its decodes."""
    steps = judgement.steps
    context = steps.column("context_tokens") - steps.column("prefill_context_tokens")
    panels = (
        ("duration", "measured (ms)", 1e3 * steps.seconds),
        ("tokens", "tokens of the step", steps.column("prefill_tokens") + steps.column("decode_tokens")),
        ("context", "context tokens of its decodes", context),
    )
    figure, axes = style.figure(11.0, 3.8, 1, len(panels), sharey=True)
    for panel, (name, label, across) in zip(axes[0], panels, strict=True):
        style.title(panel, f"Error by {name}")
        style.label(panel, label)
        _scatter(panel, judgement, across)
    style.label(axes[0][0], panels[0][1], "predicted / measured - 1 (%)")
    axes[0][-1].legend(frameon=False, fontsize=9, labelcolor=style.INK, loc="lower left", markerscale=1.5, handlelength=1.0)
    limit = float(np.quantile(np.abs(100 * judgement.error[judgement.known]), 0.995))
    axes[0][0].set_ylim(-max(1.2 * limit, BAND), max(1.2 * limit, BAND))
    return figure


def _scatter(panel: Axes, judgement: Judgement, across: np.ndarray) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    panel.axhspan(-BAND, BAND, color=style.FAINT, alpha=0.5, linewidth=0)
    panel.axhline(0, color=style.GREY, linewidth=0.8)
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    masks = region_masks(judgement.steps)
    for name, colour in COLOURS.items():
        rows = np.flatnonzero(masks[name] & judgement.known & (across > 0))
        rows = rows[:: max(1, len(rows) // MOST_POINTS)]
        size = 3 if len(rows) > FEW_POINTS else 6
        panel.plot(across[rows], 100 * judgement.error[rows], ".", markersize=size, alpha=0.45, color=colour, label=name,
                   markeredgewidth=0)  # fmt: skip
