"""The project's own table, as CSV, JSONL or Parquet: a row a request, the columns named as in `Trace`.

`arrival_s, prompt_tokens, output_tokens` and optionally `request_id, user, session, turn, think_s, priority,
deadline_s, abort_s, n, max_tokens`; the content of prompts (JSONL and Parquet) as `prompt_ids`, a list of token ids,
or `prefix_hashes`, a list of ids, one for each of the first blocks of `hash_block_tokens` tokens (a column, or the
option) and none for what the request shares with nobody. Empty cells of optional columns: no priority is 0, no n is 1,
no turn is 0, no max_tokens, time or text is none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from traces.prefix import Prefix
from traces.readers.cells import csv_cells, first_object, header, jsonl_cells
from traces.readers.content import content
from traces.readers.parquet import parquet_cells
from traces.readers.reader import Reader, assembled
from traces.readers.rows import Cells, Rows, shown
from traces.readers.source import Source
from traces.trace import Report, Trace

REQUIRED = ("arrival_s", "prompt_tokens", "output_tokens")
INTEGERS = {"max_tokens": (1, -1), "turn": (0, 0), "priority": (None, 0), "n": (1, 1)}  # least, absent
TIMES = ("think_s", "deadline_s", "abort_s")
TEXTS = ("request_id", "user", "session")
CONTENT = ("prompt_ids", "prefix_hashes", "hash_block_tokens")
COLUMNS = (*REQUIRED, *INTEGERS, *TIMES, *TEXTS, *CONTENT)
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # per second
EPOCHS = {"ms": 1e11, "us": 1e14, "ns": 1e17}  # a first arrival from here on is a date of our age in this unit


def read_csv(source: Source, rows: Rows, report: Report, *, time_unit: str | None = None) -> Trace:
    """A CSV file with a header."""
    cells = csv_cells(source, rows)
    unknown = [name for name in cells if name not in COLUMNS or name in CONTENT]
    return table(source, rows, report, {k: v for k, v in cells.items() if k not in unknown}, unknown, time_unit, None)


def read_jsonl(
    source: Source, rows: Rows, report: Report, *, time_unit: str | None = None, hash_block_tokens: int | None = None
) -> Trace:
    """A JSON object a line."""
    cells, unknown = jsonl_cells(source, rows, COLUMNS)
    return table(source, rows, report, cells, unknown, time_unit, hash_block_tokens)


def read_parquet(
    source: Source, rows: Rows, report: Report, *, time_unit: str | None = None, hash_block_tokens: int | None = None
) -> Trace:
    """A Parquet file; errors name its rows, from 1."""
    cells, unknown = parquet_cells(source, rows, COLUMNS)
    return table(source, rows, report, cells, unknown, time_unit, hash_block_tokens)


def table(
    source: Source,
    rows: Rows,
    report: Report,
    cells: Mapping[str, Cells],
    unknown: list[str],
    time_unit: str | None,
    hash_block_tokens: int | None,
) -> Trace:
    """The trace in these cells; raises ValueError for the first bad row unless bad rows are skipped."""
    for name in REQUIRED:
        if name not in cells:
            rows.good()  # a first line that cannot be read is the better explanation
            raise ValueError(f"{source.path}:{rows.lines[0]}: no column {name}; needed are {', '.join(REQUIRED)}")
    if unknown:
        report.notes.append(f"columns ignored: {', '.join(unknown)}")
    columns: dict[str, np.ndarray | list[str]] = {
        "arrival_s": rows.seconds("arrival_s", cells["arrival_s"]),
        "prompt_tokens": rows.integers("prompt_tokens", cells["prompt_tokens"], least=1),
        "output_tokens": rows.integers("output_tokens", cells["output_tokens"], least=0),
    }
    for name, (least, absent) in INTEGERS.items():
        if name in cells:
            columns[name] = rows.integers(name, cells[name], least=least, absent=absent)
    for name in TIMES:
        if name in cells:
            columns[name] = rows.seconds(name, cells[name], absent=np.nan)
    for name in TEXTS:
        if name in cells:
            columns[name] = rows.texts(name, cells[name])
    in_seconds(columns, time_unit, rows, report)
    consistent(columns, rows)
    return assembled(rows, report, columns, prefix(cells, rows, columns, hash_block_tokens))


def in_seconds(columns: dict[str, np.ndarray | list[str]], time_unit: str | None, rows: Rows, report: Report) -> None:
    """Absolute times from `time_unit`; without one, times that can only be an epoch's in ms, us or ns are noted."""
    if time_unit is None:
        earliest = np.asarray(columns["arrival_s"])[rows.unproblematic()].min(initial=np.inf)
        time_unit = next((unit for unit in ("ns", "us", "ms") if EPOCHS[unit] <= earliest < np.inf), "s")
        if time_unit != "s":
            report.notes.append(f"arrival_s looks like {time_unit} since 1970 and was read so (trace.time_unit=s: no)")
    elif time_unit not in UNITS:
        raise ValueError(f"trace.time_unit={time_unit}: allowed are {', '.join(UNITS)}")
    if time_unit != "s":
        for name in ("arrival_s", "deadline_s", "abort_s"):
            if name in columns:
                columns[name] = np.asarray(columns[name]) / UNITS[time_unit]


def consistent(columns: dict[str, np.ndarray | list[str]], rows: Rows) -> None:
    """Rejects rows whose columns contradict each other: a relative deadline, an id that is taken."""
    arrival_s = np.asarray(columns["arrival_s"])
    for name in ("deadline_s", "abort_s"):
        if name in columns:
            times = np.asarray(columns[name])
            for row in np.flatnonzero(times < arrival_s).tolist():
                rows.reject(
                    row,
                    f"{name} is {times[row]:.16g}, before arrival_s, {arrival_s[row]:.16g}: it must be a "
                    f"time on the same clock, not a duration",
                )
    taken: dict[str, int] = {}
    for row, request_id in enumerate(columns.get("request_id", ())):
        first = taken.setdefault(request_id, row)
        if request_id == "":
            rows.reject(row, "request_id is missing")
        elif first != row:
            rows.reject(row, f"request_id {shown(request_id)} is that of line {rows.lines[first]}")


def prefix(
    cells: Mapping[str, Cells], rows: Rows, columns: dict[str, np.ndarray | list[str]], hash_block_tokens: int | None
) -> Prefix | None:
    """The content of prompts, if the table tells it."""
    prompt_tokens = np.asarray(columns["prompt_tokens"])
    if "prompt_ids" in cells:
        return content("prompt_ids", cells["prompt_ids"], rows, prompt_tokens, 1)
    if "prefix_hashes" not in cells:
        return None
    if hash_block_tokens is None:
        if "hash_block_tokens" not in cells:
            raise ValueError(f"{rows.path}: prefix_hashes needs trace.hash_block_tokens, the tokens that one id covers")
        sizes = rows.integers("hash_block_tokens", cells["hash_block_tokens"], least=1)
        hash_block_tokens = int(sizes[0])
        for row in np.flatnonzero(sizes != hash_block_tokens).tolist():
            rows.reject(row, f"hash_block_tokens is {sizes[row]}, but {hash_block_tokens} above: one value a file")
    if isinstance(hash_block_tokens, bool) or not isinstance(hash_block_tokens, int) or hash_block_tokens < 1:
        raise ValueError(f"trace.hash_block_tokens is {hash_block_tokens}, must be an integer of at least 1")
    return content("prefix_hashes", cells["prefix_hashes"], rows, prompt_tokens, hash_block_tokens, whole=False)


def named(names: object) -> bool:
    """Whether the columns of a file look like this table's: one of the required is enough, errors name the rest."""
    return bool(set(REQUIRED) & set(names))  # type: ignore[call-overload]


CSV = Reader("csv", "this project's table as CSV", lambda source: named(header(source)), read_csv)
JSONL = Reader("jsonl", "this project's table as JSONL", lambda source: named(first_object(source)), read_jsonl)
PARQUET = Reader("parquet", "this project's table as Parquet", lambda source: source.text is None, read_parquet)
