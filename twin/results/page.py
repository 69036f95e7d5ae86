"""The few pieces of HTML that a report is made of. Every text that comes in is escaped here."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

CSS = """
:root { color-scheme: light dark; --ink: #1f242b; --soft: #69717c; --faint: #d9dde2; --paper: #ffffff;
        --card: #f6f7f9; --accent: #2a78b8; --alarm: #b3343f; --alarm-paper: #fdf0f0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --soft: #98a1ac; --faint: #3a414a; --paper: #15181c;
        --card: #1d2126; --accent: #6ab0e8; --alarm: #f08a92; --alarm-paper: #33191c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 68rem; background: var(--paper); color: var(--ink);
       font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { margin: 0; font-size: 1.7rem; letter-spacing: -0.01em; } h1 + p { margin: 0.2rem 0 1.6rem; color: var(--soft); }
h2 { margin: 2.4rem 0 0.7rem; font-size: 1.1rem; }
h3 { margin: 0 0 0.5rem; font-size: 0.8rem; text-transform: uppercase; letter-spacing: 0.06em; color: var(--soft); }
code, pre { font: 13px/1.45 ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
pre { margin: 0; padding: 0.9rem 1.1rem; overflow-x: auto; white-space: pre-wrap; background: var(--card);
      border-radius: 8px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(27rem, 1fr)); gap: 1rem; }
.card { padding: 1rem 1.2rem; background: var(--card); border-radius: 8px; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { font-weight: 600; color: var(--soft); font-size: 0.85rem; }
th, td { padding: 0.32rem 0.6rem; text-align: right; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr:last-child td { border-bottom: 0; }
.unit { color: var(--soft); font-size: 0.85em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.25rem 1.1rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
ul.alarm { margin: 0 0 1.5rem; padding: 0.8rem 1.2rem 0.8rem 2.2rem; border-radius: 8px;
           color: var(--alarm); background: var(--alarm-paper); }
figure { margin: 0; padding: 1rem; border: 1px solid var(--faint); border-radius: 8px; }
figure + figure { margin-top: 1rem; }
figcaption { margin: 0.4rem 0.6rem 0; color: var(--soft); font-size: 0.9rem; }
svg { display: block; width: 100%; height: auto; color: var(--ink); }
details { margin-top: 1rem; } summary { cursor: pointer; color: var(--accent); margin-bottom: 0.6rem; }
"""


def document(title: str, body: Iterable[str]) -> str:
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{CSS}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers, by their alignment."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<div class="scroll"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody></table></div>'


def facts(pairs: Iterable[tuple[str, Any]]) -> str:
    """Names and what they are; a mapping inside is shown as `name: value` lines, a list as lines."""
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{_value(value)}</dd>" for name, value in pairs) + "</dl>"


def card(title: str, content: str) -> str:
    return f'<section class="card"><h3>{escape(title)}</h3>{content}</section>'


def alarm(lines: Iterable[str]) -> str:
    """Warnings, or nothing where there are none."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="alarm">{items}</ul>' if items else ""


def picture(svg: str, caption: str) -> str:
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
