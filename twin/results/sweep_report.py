"""report.html of a sweep: its figures over what was swept, and its jobs in a table that sorts."""

from collections.abc import Sequence
from typing import Any

from twin.results import page
from twin.results.charts import chart
from twin.results.presentation import NOTHING, number
from twin.results.sweep_charts import (
    MOST_LINES,
    Metric,
    Row,
    bar_panels,
    groups_by,
    is_number,
    line_panels,
    map_panels,
    metrics_of,
    numeric,
)

LINES = (
    "A point is a job; those of one colour differ in {} alone. A red ring: the system was saturated, and latencies grow "
    "with the length of the run."
)
CELLS = "The frame marks the best cell."
MANY_JOBS = 20  # the table of more scrolls


def sweep_html(title: str, swept: Sequence[str], rows: Sequence[Row]) -> str:
    """The page: `rows` as sweep.parquet has them (docs/sweeps.md), `swept` the options that differ.

    Failed jobs have no figures; they are listed with what they died of.
    """
    done = [row for row in rows if row.get("status") != "failed"]
    failed = [row for row in rows if row.get("status") == "failed"]
    known = metrics_of(done)
    said = f"{len(rows):,} jobs" if len(rows) != 1 else "1 job"
    return page.document(title, [
        f"<h1>{page.escape(title)}</h1>",
        f"<p>{page.escape(said)} over {page.escape(', '.join(swept) or 'nothing')}</p>",
        page.alarm([f"{len(failed):,} of {said} failed; they are listed below."] if failed else []),
        *_figures(swept, done, known),
        page.heading("Jobs"),
        _jobs(swept or ["job"], done, known),
        *([page.heading("Failed"), _failed(failed)] if failed else []),
    ])  # fmt: skip


def _figures(swept: Sequence[str], rows: Sequence[Row], known: Sequence[Metric]) -> list[str]:
    if not rows or not known:
        return []
    axes = numeric(swept, rows)
    if not axes:
        return [page.heading("Figures"), chart(bar_panels(swept, rows, known), columns=2)]
    rest = [name for name in swept if name != axes[0]]
    groups = groups_by(rest, rows)
    more = f" The first {MOST_LINES} of {len(groups)} combinations are drawn." if len(groups) > MOST_LINES else ""
    parts = [page.heading("Figures"), chart(line_panels(axes[0], groups, known), LINES.format(axes[0]) + more, columns=2)]
    if len(axes) > 1:
        others = [name for name in rest if name != axes[1]]
        maps = map_panels(axes[0], axes[1], others, rows, known)
        parts += [chart(maps, CELLS, columns=3 if len({panel.note for panel in maps}) == 3 else 2)] if maps else []
    return parts


def _jobs(names: Sequence[str], rows: Sequence[Row], known: Sequence[Metric]) -> str:
    head = [*names, *(metric.title for metric in known), "saturated"]
    cells = [
        [*(_text(row.get(name)) for name in names), *(_figure(row, metric) for metric in known), _yes(row.get("saturated"))]
        for row in rows
    ]
    return page.table(head, cells, tall=len(rows) > MANY_JOBS)


def _figure(row: Row, metric: Metric) -> str:
    value, half = row.get(metric.key), row.get(f"{metric.key}_ci95")
    if not is_number(value):
        return NOTHING
    shown = number(value if metric.factor == 1.0 else value * metric.factor)
    return f"{shown} ± {number(float(half) * metric.factor, 2)}" if is_number(half) and half else shown


def _failed(rows: Sequence[Row]) -> str:
    return page.table(("job", "why"), [(str(row["job"]), str(row.get("reason") or NOTHING)) for row in rows])


def _text(value: Any) -> str:
    return NOTHING if value is None else number(value) if is_number(value) else str(value)


def _yes(value: Any) -> str:
    return NOTHING if value is None else "yes" if value else "no"
