"""The comparison as a table: for the terminal, CSV, Markdown and LaTeX."""

import csv
import io
from collections.abc import Iterable, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

from twin.compare.compare import Comparison, Pairs, Row
from twin.results.presentation import NOTHING, number

if TYPE_CHECKING:
    from rich.table import Table

SHORT = (
    "ttft_s_mean", "ttft_s_p50", "ttft_s_p99", "tpot_s_mean", "tpot_s_p99", "e2e_s_mean", "e2e_s_p99", "request_throughput",
    "output_token_throughput", "slo_attainment", "goodput", "preemptions", "utilisation", "kv_usage_mean", "jain_index",
)  # fmt: skip
HEAD = ("", "variant", "", "±", "difference", "±", "%", "")
COLUMNS = ("scene", "figure", "unit", "variant", "value", "half_width", "baseline", "difference", "difference_half_width",
           "relative", "verdict", "seeds_or_sections", "confidence")  # fmt: skip
LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
         "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "−": r"$-$", "–": "--",
         "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    """A row in the figure's unit: its name, the variant, value and half width, difference and half width, %, verdict."""
    figure = row.figure
    name = f"{figure.name} ({figure.unit})" if figure.unit else figure.name
    if row.difference is None:
        return name, row.variant, *_both(row.value, figure.factor), "", "", "", ""
    share = row.relative
    percent = NOTHING if share is None else f"{100 * share:+.1f}".replace("-", "−")
    percent = "0" if percent in ("+0.0", "−0.0") and not row.difference.value else percent
    return (
        name,
        row.variant,
        *_both(row.value, figure.factor),
        *_both(row.difference, figure.factor, "+"),
        percent,
        row.verdict,
    )


def pair_words(pairs: Pairs) -> str:
    """What became of the same requests, in a line."""
    half = "" if pairs.mean.half is None else f" ± {number(float(pairs.mean.half), 3)}"
    same = f", {100 * pairs.equal:.1f} % at the same time" if pairs.equal else ""
    ends = f"median {_signed(pairs.median)} s, from {_signed(pairs.best)} to {_signed(pairs.worst)} s"
    return (
        f"{pairs.variant}, {pairs.column}: of {pairs.pairs:,} requests {100 * pairs.sooner:.1f} % sooner{same}; on average "
        f"{_signed(pairs.mean.value)}{half} s, {ends}"
    )


def terminal(rows: Sequence[Row], short: bool = True) -> "Table":
    """For rich; `short` leaves the less important figures to the files."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for place, name in enumerate(HEAD):
        table.add_column(name, justify="left" if place in (0, 1, 7) else "right", overflow="fold")
    last = ""
    for row in rows:
        if short and row.figure.key not in SHORT:
            continue
        name, *others = cells(row)
        style = {"better": "green", "worse": "red"}.get(row.verdict, "")
        table.add_row(Text("" if name == last else name), *map(Text, others[:-1]), Text(others[-1], style=style))
        last = name
    return table


def csv_text(comparisons: Iterable[Comparison]) -> str:
    """A row a figure and variant, in the units of summary.json; what is not known is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in comparisons:
        for row in each.rows:
            difference = row.difference
            apart = (None, None, None) if difference is None else (difference.value, difference.half, row.relative)
            own = map(_plain, (row.value.value, row.value.half))
            parts = row.value.parts if row.value.half is not None else ""
            writer.writerow([row.scene, row.figure.key, _unit(row), row.variant, *own, each.baseline, *map(_plain, apart),
                             row.verdict, parts, each.confidence])  # fmt: skip
    return out.getvalue()


def markdown(comparisons: Sequence[Comparison]) -> str:
    """A table a scene, and the notes under it."""
    lines = []
    for each in comparisons:
        lines += [f"## {each.scene.name}", ""] if each.scene.name else []
        lines += ["| figure | variant | value | ± | difference | ± | % | |", "|---|---|--:|--:|--:|--:|--:|---|"]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells(row)) + " |" for row in each.rows]
        lines += ["", *(f"- {line}" for line in told(each)), ""]
    return "\n".join(lines)


def latex(comparisons: Sequence[Comparison]) -> str:
    """The same for a paper: booktabs, one tabular a scene."""
    lines = ["% needs \\usepackage{booktabs}"]
    for each in comparisons:
        lines += [f"% {each.scene.name}"] if each.scene.name else []
        lines += [
            r"\begin{tabular}{llrrrrrl}",
            r"\toprule",
            " & ".join(map(_tex, ("figure", *HEAD[1:]))) + r" \\",
            r"\midrule",
        ]
        last = ""
        for row in each.rows:
            name, *others = cells(row)
            lines.append(" & ".join(map(_tex, ("" if name == last else name, *others))) + r" \\")
            last = name
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def told(each: Comparison) -> list[str]:
    """How it was measured and what to beware of, line by line."""
    seeds = len(next(iter(each.measured.values())))
    percent = f"{100 * each.confidence:g} %"
    if not each.scene.paired:
        way = f"{percent} intervals of unrelated runs (Welch)"
    elif seeds > 1:
        way = f"{percent} intervals over {seeds} seeds (Student's t), differences seed by seed"
    else:
        way = f"{percent} intervals by sections of one run, differences over the same requests; runs with seeds=5 tell more"
    alone = f"each figure by itself: of {len(each.rows):,} some are outside their interval by chance"
    identical = [f"{label}: every request was served at the times of {each.baseline}" for label in each.identical]
    return [f"baseline: {each.baseline}", each.warmup, f"{way}; {alone}", *identical, *each.notes]


def _both(interval: Any, factor: float, sign: str = "") -> tuple[str, str]:
    half = "" if interval.half is None else number(float(interval.half * factor), 3)
    if isnan(interval.value):
        return NOTHING, ""
    return (_signed(interval.value * factor) if sign else number(float(interval.value * factor))), half


def _signed(value: float) -> str:
    return f"+{number(float(value))}" if value > 0 else number(float(value)).replace("-", "−")


def _unit(row: Row) -> str:
    return {"ms": "s", "ms/token": "s/token", "%": "share"}.get(row.figure.unit, row.figure.unit)


def _plain(value: float | None) -> str:
    return "" if value is None or isnan(value) else repr(float(value))


def _tex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)
