"""sweep.parquet: a row a job that has ended, what is swept first, then every figure of its summary."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twin.results.atomic import writing
from twin.sweep import ledger
from twin.sweep.jobs import Job, Plan

SWEEP, JOB, STATUS, REASON = "sweep.parquet", "job", "status", "reason"
Row = dict[str, Any]


def summary_of(folder: Path) -> dict[str, Any]:
    """summary.json of a unit that has finished."""
    said = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert isinstance(said, dict)
    return said


def row(job: Job, summary: Mapping[str, Any] | None) -> Row | None:
    """The row of a job; None while any of its units is still to be run. A failed one has no figures."""
    statuses = [unit.status() for unit in job.units]
    if not all(status in ledger.ENDED for status in statuses):
        return None
    failed = [unit for unit, status in zip(job.units, statuses, strict=True) if status == ledger.FAILED]
    about = {
        JOB: job.name,
        STATUS: ledger.FAILED if failed else ledger.FINISHED,
        REASON: failed[0].reason() if failed else None,
    }
    return {**about, **job.settings, **{key: value for key, value in (summary or {}).items() if key not in about}}


def write_table(plan: Plan, rows: Sequence[Row]) -> None:
    """Writes sweep.parquet; what is swept is named in its metadata, under `swept`. Raises OutputError."""
    from twin.results.tables import write_parquet

    names = list(dict.fromkeys((JOB, STATUS, REASON, *plan.swept, *(name for each in rows for name in each))))
    with writing(plan.folder / SWEEP) as handle:
        write_parquet(_arrow(names, rows).replace_schema_metadata({"swept": json.dumps(plan.swept)}), handle)


def read_table(folder: Path) -> tuple[list[str], list[Row]]:
    """What was swept, and the rows. Raises OSError and ValueError, pyarrow's own too."""
    from pyarrow import parquet

    found = parquet.read_table(folder / SWEEP)
    swept = json.loads((found.schema.metadata or {}).get(b"swept", b"[]"))
    return [str(name) for name in swept], found.to_pylist()


def _arrow(names: Sequence[str], rows: Sequence[Row]) -> Any:
    import pyarrow

    columns = {name: _column([each.get(name) for each in rows], name == REASON) for name in names}
    return pyarrow.table(columns)


def _column(values: list[Any], text: bool) -> Any:
    """One type a column: truth, whole numbers, numbers, or text where these are mixed with anything else.

    What is never known is a number, unless it is `text`.
    """
    import pyarrow

    kinds = {type(value) for value in values if value is not None}
    if text or kinds == {str}:
        kind = pyarrow.string()
    elif kinds == {bool}:
        kind = pyarrow.bool_()
    elif kinds == {int} and all(abs(value) < 2**63 for value in values if value is not None):
        kind = pyarrow.int64()
    elif kinds <= {int, float}:
        return pyarrow.array([None if value is None else float(value) for value in values], pyarrow.float64())
    else:
        return pyarrow.array([None if value is None else _text(value) for value in values], pyarrow.string())
    return pyarrow.array(values, kind)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
