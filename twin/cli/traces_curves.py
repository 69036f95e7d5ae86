"""The figure of `twin traces show`, from traces and from figures of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twin.results.trace_figure import Curves, figure_of

if TYPE_CHECKING:
    from traces import Trace
    from traces.sources import Source

WINDOWS_S = (1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0)
LEVELS = np.linspace(0, 1, 401)
MOST_STEPS = 400  # of the rate along time


def draw(place: Path, name: str, trace: "Trace", source: "Source | None", other: "Trace | None") -> None:
    """The trace, and the source as far as it is known, as a PNG."""
    from twin.results.atomic import writing
    from twin.results.style import save_png

    known = curves_of(other) if other is not None else None if source is None else curves_known(source)
    with writing(place) as handle:
        save_png(figure_of(Path(name).name, curves_of(trace), known), handle)


def curves_of(trace: "Trace") -> Curves:
    """All of a trace that is at hand; a closed loop has lengths only."""
    from traces.statistics import fano, windowed

    prompt, output = np.quantile(trace.prompt_tokens, LEVELS), np.quantile(trace.output_tokens, LEVELS)
    span_s = float(trace.arrival_s[-1] - trace.arrival_s[0])
    if trace.closed is not None or not span_s > 0:
        return Curves(trace.name, LEVELS, prompt, output)
    factors = {window: fano(trace.arrival_s, window) for window in WINDOWS_S if window <= span_s / 5}
    steps = (1.0, 10.0, 60.0, 600.0, 3600.0)
    window_s = next((window for window in steps if span_s / window <= MOST_STEPS), span_s / MOST_STEPS)
    return Curves(
        trace.name,
        LEVELS,
        prompt,
        output,
        fano={window: value for window, value in factors.items() if value is not None},
        rate=(len(trace) - 1) / span_s,
        window_s=window_s,
        rates=windowed(trace.arrival_s, window_s) / window_s,
    )


def curves_known(source: "Source") -> Curves:
    """What is committed of a source."""
    factors = {10.0: source.figures.get("fano_10s"), 60.0: source.figures.get("fano_60s")}
    return Curves(
        source.title,
        np.array(source.levels),
        np.array(source.prompt_tokens),
        np.array(source.output_tokens),
        fano={window: value for window, value in factors.items() if value is not None},
        rate=source.figures.get("rate"),
    )
