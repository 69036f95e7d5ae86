"""The figures of a run, for notebooks."""

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from twin.results.columns import Table

MOST_ROWS = 200  # requests in a timeline


class Plots:
    """`run.plot.latency()`, `.load()`, `.timeline()`: each a matplotlib Figure that shows itself in a notebook."""

    def __init__(self, requests: "Table", steps: "Table", slo: Mapping[str, Any] | None) -> None:
        self._requests, self._steps, self._slo = requests, steps, slo

    def latency(self) -> "Figure":
        """Cumulative distributions of TTFT, TPOT and end-to-end latency, with p50, p90, p99 and the SLO."""
        from twin.results.figures import latency_figure

        return shown(latency_figure(self._requests, self._slo))

    def load(self) -> "Figure":
        """KV blocks in use over time with preemptions, and below it who runs, waits, is swapped out."""
        from twin.results.figures import load_figure

        return shown(load_figure(self._steps))

    def timeline(self, first: int = 0, count: int = 60) -> "Figure":
        """Requests in order of arrival, from the `first` on, a bar each: waiting, prefill, decoding."""
        from twin.notebook.timeline import timeline_figure

        return shown(timeline_figure(self._requests, first, min(count, MOST_ROWS)))

    def __repr__(self) -> str:
        return "plot.latency(), plot.load(), plot.timeline(first=0, count=60)"


def shown(figure: "Figure") -> "Figure":
    """The same figure, which a notebook shows by itself, whether pyplot's inline mode is on or not."""
    from matplotlib.figure import Figure

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            written = io.BytesIO()
            self.savefig(written, format="png", dpi=100, facecolor="white")
            return written.getvalue()

    figure.__class__ = Shown
    return figure
