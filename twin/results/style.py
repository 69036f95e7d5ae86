"""How figures look, and how they become PNG and SVG: the same bytes for the same numbers."""

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, darkened a little: distinct to colour-blind readers and on white and black paper.
BLUE, ORANGE, GREEN, RED, GREY = "#2a78b8", "#d9820f", "#12916b", "#c8414b", "#8a9099"
INK = "#2c3138"
FAINT = "#d5d9de"


def figure(width: float, height: float, rows: int = 1, columns: int = 1, **subplots: Any) -> "tuple[Figure, Any]":
    """A figure (inches) with its axes, cleaned; no pyplot, hence no global state and no display.

    Margins are given in inches, once for all: to have them found doubles the time to draw.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height))
    FigureCanvasAgg(made)
    made.subplots_adjust(left=0.78 / width, right=1 - 0.2 / width, bottom=0.52 / height, top=1 - 0.38 / height,
                         wspace=0.1, hspace=0.24)  # fmt: skip
    axes = made.subplots(rows, columns, squeeze=False, **subplots)
    for each in axes.flat:
        clean(each)
    return made, axes


def clean(axes: "Axes") -> None:
    """Two spines, a faint grid behind the data, small grey ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(colors=INK, labelsize=9, length=3, color=GREY)
    axes.grid(True, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def title(axes: "Axes", text: str, note: str = "") -> None:
    axes.set_title(text, loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=8)
    if note:
        axes.set_title(note, loc="right", fontsize=9, color=GREY, pad=8)


def label(axes: "Axes", x: str = "", y: str = "") -> None:
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)


def logarithmic(axes: "Axes", which: Literal["x", "y"]) -> None:
    """A logarithmic axis ("x" or "y"), labelled with plain numbers, the fewer of a decade the more decades there are."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    least, most = axis.get_data_interval()
    span = most / least if 0 < least < most else 1.0
    subs = (1, 2, 3, 4, 5, 6, 7, 8, 9) if span < 6 else (1, 2, 5) if span < 200 else (1,)
    axis.set_major_locator(LogLocator(10, subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis=which, which="minor", length=0)


def legend(axes: "Axes", columns: int) -> None:
    axes.legend(frameon=False, fontsize=9, labelcolor=INK, ncols=columns, loc="lower right", bbox_to_anchor=(1.0, 1.0),
                borderaxespad=0.1, handlelength=1.4, columnspacing=1.4)  # fmt: skip


def save_png(made: "Figure", handle: BinaryIO, dpi: int = 144) -> None:
    made.savefig(handle, format="png", dpi=dpi, facecolor="white", metadata={"Software": None},
                 pil_kwargs={"compress_level": 4})  # fmt: skip


def to_svg(made: "Figure", name: str) -> str:
    """An <svg> element to stand in a page: text as text, the page's ink, ids that are its own.

    `name` tells it from other figures of the same page: ids are prefixed with it.
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        made.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Type": None,
                                                                       "Format": None})  # fmt: skip
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    opening = rf'<svg viewBox="\1" role="img" aria-label="{name}">'
    text = re.sub(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', opening, text, count=1)
    text = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"font: ((?:bold )?[\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", text)
    return text.replace(INK, "currentColor").replace(FAINT, "var(--faint)").replace("xlink:href", "href")


def time_axis(span_s: float) -> tuple[float, str]:
    """What to divide seconds by, and the unit then: seconds, minutes or hours."""
    limits: Sequence[tuple[float, float, str]] = ((600, 1, "s"), (7200, 60, "min"), (float("inf"), 3600, "h"))
    return next((divisor, unit) for limit, divisor, unit in limits if span_s <= limit)
