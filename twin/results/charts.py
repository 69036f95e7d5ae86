"""Figures of a page: what is drawn, as plain data; assets/charts.js draws it with Bokeh in the browser.

A chart is a few panels side by side or above each other. A reader zooms, pans and points at things.
"""

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

Values = np.ndarray | Sequence[float]

# Names of colours: charts.js and the style sheet know each for light and dark pages.
BLUE, ORANGE, GREEN, RED, GREY, PURPLE, BROWN, PINK = "blue", "orange", "green", "red", "grey", "purple", "brown", "pink"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, BROWN, PINK, GREY)  # red is for what is wrong

DIGITS = 7  # significant, of a number that is drawn
LIBRARY = ("bokeh.min.js", "bokeh-api.min.js")


def colour(index: int) -> str:
    """The colour of the series of that number; where they begin anew lines should be dashed."""
    return CYCLE[index % len(CYCLE)]


def dashed(index: int) -> bool:
    """Whether the series of that number has the colour of an earlier one."""
    return index >= len(CYCLE)


@dataclass(frozen=True)
class Series:
    """One thing in a panel: points (x, y).

    `kind`: "line", "step" (a value holds until the next x), "points", or "bars" (x are names). `low`, `high`: a band
    around a line. `texts`: what is told of each point beside its numbers; `labels`: written beside it.
    """

    name: str
    x: Values | Sequence[str]
    y: Values
    kind: str = "line"
    colour: str = BLUE
    dashed: bool = False
    low: Values | None = None
    high: Values | None = None
    texts: Sequence[str] | None = None
    labels: Sequence[str] | None = None
    size: float = 6.0  # of a point, pixels
    in_legend: bool = True
    group: str = ""  # series of one group are shown and hidden together; if empty its name

    def plain(self) -> dict[str, Any]:
        """As JSON can say it."""
        data: dict[str, Any] = {
            "name": self.name, "kind": self.kind, "colour": self.colour, "dashed": self.dashed, "size": self.size,
            "x": _column(self.x), "y": _column(self.y), "legend": self.in_legend, "group": self.group or self.name,
        }  # fmt: skip
        for key in ("low", "high"):
            if (values := getattr(self, key)) is not None:
                data[key] = _column(values)
        for key in ("texts", "labels"):
            if (values := getattr(self, key)) is not None:
                data[key] = [str(value) for value in values]
        return data


@dataclass(frozen=True)
class Rule:
    """A straight line across a panel, at x (vertical) or at y (horizontal), with a word beside it."""

    text: str
    x: float | None = None
    y: float | None = None
    colour: str = RED


@dataclass(frozen=True)
class Heat:
    """Cells of a table as colours: `values[row][column]`, nan where there is none; `marked`: (row, column) of the best."""

    x: Sequence[str]
    y: Sequence[str]
    values: Sequence[Sequence[float]]
    unit: str = ""
    marked: tuple[int, int] | None = None

    def plain(self) -> dict[str, Any]:
        rows = [_column(row) for row in self.values]
        return {"x": list(map(str, self.x)), "y": list(map(str, self.y)), "values": rows, "unit": self.unit,
                "marked": list(self.marked) if self.marked else None}  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """`scale`: "linear" or "log". `shows`: "number" or "percent" (of a share). `least`, `most`: its first extent."""

    label: str = ""
    scale: str = "linear"
    shows: str = "number"
    least: float | None = None
    most: float | None = None

    def plain(self) -> dict[str, Any]:
        return {"label": self.label, "scale": self.scale, "shows": self.shows, "least": self.least, "most": self.most}


@dataclass(frozen=True)
class Panel:
    """Axes with what is in them: series and rules, or a heat map. `note`: said at the right of the title."""

    title: str
    series: Sequence[Series] = ()
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    rules: Sequence[Rule] = ()
    heat: Heat | None = None
    note: str = ""
    height: int = 280  # pixels

    def plain(self) -> dict[str, Any]:
        return {
            "title": self.title, "note": self.note, "height": self.height, "x": self.x.plain(), "y": self.y.plain(),
            "series": [series.plain() for series in self.series],
            "rules": [vars(rule) for rule in self.rules],
            "heat": self.heat.plain() if self.heat else None,
        }  # fmt: skip


def chart(panels: Iterable[Panel], caption: str = "", *, columns: int = 1, link_x: bool = False) -> str:
    """A figure of a page: panels in so many columns (one below the other on a phone).

    `link_x`: zooming along x in one panel does so in all.
    """
    drawn = [panel.plain() for panel in panels]
    boxes = "".join(_box(panel) for panel in drawn)
    told = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    linked = "yes" if link_x else "no"
    return (
        f'<figure class="chart" data-link-x="{linked}"><div class="panels columns{min(columns, 3)}">{boxes}</div>{told}'
        f"{data_block(drawn)}</figure>"
    )


def data_block(data: Any) -> str:
    """JSON inside a page, as a script finds it there; nothing in it can end the element or be markup."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return '<script type="application/json">' + text.replace("<", "\\u003c").replace("\u2028", "\\u2028") + "</script>"


def _box(panel: Mapping[str, Any]) -> str:
    title, note = escape(panel["title"]), escape(panel["note"])
    return (
        f'<div class="panel"><div class="panel-title"><strong>{title}</strong><span>{note}</span></div>'
        f'<div class="canvas" style="height:{panel["height"]}px" role="img" aria-label="{title}"></div></div>'
    )


def _column(values: Values | Sequence[str]) -> list[Any]:
    """Numbers to `DIGITS` digits, None for what is not finite; names as they are."""
    array = np.asarray(values)
    if array.dtype.kind in "OUS":
        return [str(value) for value in values]
    if array.dtype.kind in "iub":
        return array.tolist()
    return [value if np.isfinite(value) else None for value in map(float, np.char.mod(f"%.{DIGITS}g", array))]


@dataclass(frozen=True)
class Library:
    """The plotting library: its text, compressed for a page, and its licence."""

    name: str
    text: str
    packed: str  # gzip, base64
    licence: str


@cache
def library() -> Library:
    """BokehJS as the Python package of that name ships it; nothing of the package is imported."""
    spec = find_spec("bokeh")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the figures of a report need the package bokeh: pip install bokeh", name="bokeh")
    package = Path(spec.submodule_search_locations[0])
    parts = [(package / "server" / "static" / "js" / name).read_text(encoding="utf-8") for name in LIBRARY]
    text = "\n".join(part.partition("//# sourceMappingURL")[0] for part in parts)
    packed = base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
    return Library("Bokeh", text, packed, (package / "LICENSE.txt").read_text(encoding="utf-8"))
