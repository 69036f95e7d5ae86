"""What a sweep leaves: the summary of each job, sweep.parquet, and a table on the terminal."""

import sys
from collections.abc import Sequence
from typing import Any

from twin.cli.errors import UserError, of_file
from twin.cli.seeds import combined
from twin.results.atomic import OutputError
from twin.results.folder import REPORT
from twin.sweep import ledger
from twin.sweep.jobs import Job, Plan
from twin.sweep.table import REASON, SWEEP, Row, row, summary_of, write_table

SHOWN = {"ttft_s_p50": "TTFT p50 s", "ttft_s_p99": "TTFT p99 s", "tpot_s_p99": "TPOT p99 s", "e2e_s_mean": "E2E mean s",
         "request_throughput": "requests/s", "goodput": "goodput 1/s", "saturated": "saturated"}  # fmt: skip
WIDTH = 132  # letters, where there is no terminal
MOST_ROWS = 60


def collect(plan: Plan) -> list[Row]:
    """Writes sweep.parquet, and of jobs of several seeds the summary over them; a page of other numbers goes.

    Raises `UserError`.
    """
    try:
        rows = [found for job in plan.jobs if (found := row(job, _summary(job))) is not None]
        if rows:
            write_table(plan, rows)
            (plan.folder / REPORT).unlink(missing_ok=True)
    except OSError as error:  # OutputError too
        why = str(error) if isinstance(error, OutputError) else of_file(error)
        raise UserError(f"hydra.sweep.dir={plan.folder}: {why}") from error
    return rows


def _summary(job: Job) -> dict[str, Any] | None:
    from twin.results.folder import RunFolder

    summaries = [summary_of(unit.folder) for unit in job.units if unit.status() == ledger.FINISHED]
    if not summaries or job.seeds == 1:
        return summaries[0] if summaries else None
    together = combined(summaries, job.seeds)
    with RunFolder(job.folder) as files:
        files.summary(together)
    return together


def draw(plan: Plan) -> None:
    """report.html over all jobs. Raises `UserError`."""
    from twin.cli.report import write_report

    write_report(plan.folder)


def show(plan: Plan, rows: Sequence[Row]) -> None:
    """A row a job, with what is swept and a few figures; where the rest is."""
    from rich.console import Console
    from rich.table import Table

    from twin.results.presentation import NOTHING, number

    if not rows:
        print(f"no job has ended; the folder is {plan.folder}", flush=True)
        return
    table = Table(box=None, pad_edge=False)
    shown = [key for key in SHOWN if any(each.get(key) is not None for each in rows)]
    shown += ["status"] if any(each[REASON] for each in rows) else []
    for name in (*plan.swept, *shown):
        table.add_column(SHOWN.get(name, name), justify="left" if name in plan.swept else "right", overflow="fold")
    for each in rows[:MOST_ROWS]:
        table.add_row(*(NOTHING if each.get(name) is None else _text(each[name], number) for name in (*plan.swept, *shown)))
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDTH).print(table)
    if len(rows) > MOST_ROWS:
        print(f"and {len(rows) - MOST_ROWS:,} more")
    print(f"written to {plan.folder}, all figures to {plan.folder / SWEEP}", flush=True)


def _text(value: Any, number: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(number(value)) if isinstance(value, (int, float)) else str(value)
