"""The summary on the terminal, and the same as Markdown."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twin.results.presentation import STATISTICS, Fact, Overview, overview

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

LABEL_WIDTH = 26


def print_summary(summary: Mapping[str, Any], *, title: str = "", console: "Console | None" = None) -> None:
    """Prints the grouped table, at most 80 columns wide, to `console` (default: standard output)."""
    from rich.console import Console

    (console or Console(highlight=False, markup=False, emoji=False)).print(summary_table(summary, title=title))


def summary_table(summary: Mapping[str, Any], *, title: str = "") -> "Group":
    """The same as something that rich can print."""
    from rich.console import Group
    from rich.text import Text

    view = overview(summary)
    parts: list[Any] = [Text(title, style="bold")] if title else []
    for name, facts in view.facts():
        parts.append(_facts(name, facts))
        if name == "Load":
            parts.append(_latencies(view))
    return Group(*parts)


def summary_markdown(summary: Mapping[str, Any]) -> str:
    """Two Markdown tables, latencies and all else, for READMEs and issues."""
    view = overview(summary)
    lines = ["| latency | " + " | ".join((*STATISTICS, "n")) + " |", "|---|" + "--:|" * (len(STATISTICS) + 1)]
    lines += [f"| {row.name} ({row.unit}) | " + " | ".join(row.cells) + " |" for row in view.latency]
    lines += ["", "| | |", "|---|---|"]
    lines += [f"| {fact.name} | {fact.text} |" for _, facts in view.facts() for fact in facts]
    return "\n".join(lines) + "\n"


def _facts(title: str, facts: list[Fact]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=True, padding=(0, 1), pad_edge=False)
    table.add_column(Text(title, style="bold cyan"), width=LABEL_WIDTH, no_wrap=True)
    table.add_column("", overflow="fold")
    for fact in facts:
        table.add_row(Text(f"  {fact.name}"), Text(fact.text))
    return table


def _latencies(view: Overview) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 0), pad_edge=False)
    table.add_column(Text("Latency", style="bold cyan"), width=LABEL_WIDTH, no_wrap=True)
    for name in STATISTICS:
        table.add_column(Text(name, style="dim"), justify="right", width=8, no_wrap=True)
    table.add_column(Text("n", style="dim"), justify="right", width=14, no_wrap=True)  # inter-token: up to billions
    for row in view.latency:
        table.add_row(Text.assemble(f"  {row.name} ", (row.unit, "dim")), *row.cells)
    return table
