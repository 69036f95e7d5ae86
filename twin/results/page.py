"""Pages of HTML that need nothing beside them: texts, tables that sort, figures that zoom.

    document("A title", [heading("Numbers"), table(head, rows), chart([Panel(...)], "What it shows.")])

(`chart` is in `twin.results.charts`.) Every text that comes in is escaped here. A page may load nothing and run no script
but its own: its Content-Security-Policy names them by their hashes.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from twin.results.charts import library

ASSETS = Path(__file__).parent / "assets"
CHART = '<figure class="chart"'  # no text that comes in can look like this: it would be escaped
SORTABLE = '<table class="sortable"'
NO_SCRIPT = "Figures and the sorting of tables need JavaScript."


def document(title: str, body: Iterable[str], *, style: str = "", scripts: Sequence[str] = ()) -> str:
    """The page. Sorting and the plotting library are part of it where the body has such tables and figures.

    `style`, `scripts`: more CSS and JavaScript, as text. The scripts come last and see the whole body.
    """
    parts = list(body)
    sorts, plots = (any(mark in part for part in parts) for mark in (SORTABLE, CHART))
    own = [asset("page.js")] * sorts + [asset("charts.js")] * plots + list(scripts)
    allowed = own + [library().text] * plots
    head = (
        '<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(allowed)}">\n'
        f"<title>{escape(title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{asset('page.css')}{style}</style>"
    )
    if own:
        parts.append(f'<noscript><p class="soft">{NO_SCRIPT}</p></noscript>')
    if plots:
        parts.append(_licence())
        parts.append(f'<script type="text/plain" id="plotting-library">{library().packed}</script>')
    parts += [f"<script>{script}</script>" for script in own]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n' + "\n".join(parts) + "\n</body>\n</html>\n"
    )


@cache
def asset(name: str) -> str:
    """The text of a file of assets/."""
    return (ASSETS / name).read_text(encoding="utf-8")


def _policy(scripts: Iterable[str]) -> str:
    """Nothing from anywhere, but for the styles and the pictures in the page itself and the scripts given."""
    hashes = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts}
    allowed = " ".join(f"'sha256-{each}'" for each in sorted(hashes)) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _licence() -> str:
    text = f"Figures are drawn by {library().name}, whose licence follows.\n\n{library().licence}"
    return f"<footer>{folded('Licence of the plotting library', preformatted(text))}</footer>"


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, sortable: bool = True, tall: bool = False) -> str:
    """A table whose first column is text and whose others are numbers, by their alignment. A `tall` one scrolls."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    opening = f"{SORTABLE}>" if sortable else "<table>"
    box = "scroll tall" if tall else "scroll"
    return f'<div class="{box}">{opening}\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody></table></div>'


def facts(pairs: Iterable[tuple[str, Any]]) -> str:
    """Names and what they are; a mapping inside is shown as `name: value` lines, a list as lines."""
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{_value(value)}</dd>" for name, value in pairs) + "</dl>"


def card(title: str, content: str) -> str:
    return f'<section class="card"><h3>{escape(title)}</h3>{content}</section>'


def cards(contents: Iterable[str]) -> str:
    """Cards beside each other where there is room."""
    return f'<div class="cards">{"".join(contents)}</div>'


def alarm(lines: Iterable[str]) -> str:
    """Warnings, or nothing where there are none."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="alarm">{items}</ul>' if items else ""


def picture(svg: str, caption: str) -> str:
    """A figure that stands still: the text of an <svg>, which is taken as it is."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "<br>".join(f"{escape(str(name))}: {_value(entry)}" for name, entry in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "<br>".join(_value(entry) for entry in value) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else escape(str(value))
