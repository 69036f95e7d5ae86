"""The project's own table, as CSV, JSONL or Parquet: a row a request, the columns named as in `Trace`.

`arrival_s, prompt_tokens, output_tokens` and optionally `request_id, user, session, turn, think_s, priority,
deadline_s, abort_s, n, max_tokens, pauses`; the content of prompts (JSONL and Parquet) as `prompt_ids`, a list of token ids,
or `prefix_hashes`, a list of ids, one for each of the first blocks of `hash_block_tokens` tokens (a column, or the
option) and none for what the request shares with nobody. Empty cells of optional columns: no priority is 0, no n is 1,
no turn is 0, no max_tokens, time or text is none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from traces.pauses import parse
from traces.readers.cells import csv_cells, first_keys, header, jsonl_cells, named_columns
from traces.readers.content import Content
from traces.readers.parquet import parquet_cells
from traces.readers.reader import Columns, Reader, assembled, gathered
from traces.readers.rows import Cells, Rows, shown
from traces.readers.source import Source
from traces.trace import Report, Trace

REQUIRED = ("arrival_s", "prompt_tokens", "output_tokens")
INTEGERS = {"max_tokens": (1, -1), "turn": (0, 0), "priority": (None, 0), "n": (1, 1)}  # least, absent
TIMES = ("think_s", "deadline_s", "abort_s")
TEXTS = ("request_id", "user", "session", "pauses")
CONTENT = ("prompt_ids", "prefix_hashes", "hash_block_tokens")
ABSENT = {name: absent for name, (_, absent) in INTEGERS.items()} | dict.fromkeys(TIMES, np.nan) | dict.fromkeys(TEXTS, "")
COLUMNS = (*REQUIRED, *INTEGERS, *TIMES, *TEXTS, *CONTENT)
NO_SIZE = -1  # where a row has no hash_block_tokens
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # per second
EPOCHS = {"ms": 1e11, "us": 1e14, "ns": 1e17}  # a first arrival from here on is a date of our age in this unit


def read_csv(source: Source, rows: Rows, report: Report, *, time_unit: str | None = None) -> Trace:
    """A CSV file with a header."""
    unknown = [name for name in header(source) if name not in COLUMNS or name in CONTENT]
    table = Table(rows, None)
    chunks = csv_cells(source, rows, REQUIRED, "the table")
    known = ({name: cells[name] for name in cells if name not in unknown} for cells in chunks)
    return table.trace(known, report, unknown, time_unit)


def read_jsonl(
    source: Source, rows: Rows, report: Report, *, time_unit: str | None = None, hash_block_tokens: int | None = None
) -> Trace:
    """A JSON object a line."""
    unknown: dict[str, None] = {}
    chunks = jsonl_cells(source, rows, COLUMNS, REQUIRED, "the table", unknown)
    return Table(rows, hash_block_tokens).trace(chunks, report, unknown, time_unit)


def read_parquet(
    source: Source, rows: Rows, report: Report, *, time_unit: str | None = None, hash_block_tokens: int | None = None
) -> Trace:
    """A Parquet file; errors name its rows, from 1."""
    unknown: dict[str, None] = {}
    chunks = parquet_cells(source, rows, COLUMNS, unknown)
    return Table(rows, hash_block_tokens).trace(chunks, report, unknown, time_unit)


class Table:
    """The columns of one file as it is read: what one part of it leaves for the next to know."""

    def __init__(self, rows: Rows, hash_block_tokens: object) -> None:
        self.rows = rows
        self.hash_block_tokens = hash_block_tokens  # what one id of prefix_hashes covers; None: not known yet
        self.content: Content | None = None
        self.taken: dict[str, int | str] = {}  # request id: line of the file

    def trace(
        self, chunks: Iterable[Mapping[str, Cells]], report: Report, unknown: Collection[str], time_unit: str | None
    ) -> Trace:
        """The trace in these cells; raises ValueError for the first bad row unless bad rows are skipped."""
        if time_unit is not None and time_unit not in UNITS:
            raise ValueError(f"trace.time_unit={time_unit}: allowed are {', '.join(UNITS)}")
        columns = gathered(self.rows, map(self.converted, chunks), ABSENT)
        report.notes += named_columns(unknown)
        in_seconds(columns, time_unit, report)
        return assembled(self.rows, report, columns, 1 if self.content is None else self.content.hash_block_tokens)

    def converted(self, cells: Mapping[str, Cells]) -> Columns:
        """Some rows."""
        rows = self.rows
        for name in REQUIRED:
            if name not in cells:
                rows.check()
                raise ValueError(f"{rows.path}:{rows.lines[0]}: no column {name}; the table has {', '.join(REQUIRED)}")
        columns: Columns = {
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
        self.check(columns)
        prompt_tokens = np.asarray(columns["prompt_tokens"])
        if "prompt_ids" in cells:
            self.content = self.content or Content("prompt_ids", 1)
            columns["content"] = self.content.column(cells["prompt_ids"], rows, prompt_tokens)
        elif "prefix_hashes" in cells:
            self.content = self.content or Content("prefix_hashes", self.block_tokens(cells), whole=False)
            self.check_block_tokens(cells)
            columns["content"] = self.content.column(cells["prefix_hashes"], rows, prompt_tokens)
        return columns

    def check(self, columns: Columns) -> None:
        """Rejects rows whose columns contradict each other: a relative deadline, an id that is taken."""
        rows, arrival_s = self.rows, np.asarray(columns["arrival_s"])
        for name in ("deadline_s", "abort_s"):
            times = np.asarray(columns.get(name, np.nan))
            for row in np.flatnonzero(times < arrival_s).tolist():
                rows.reject(
                    row,
                    f"{name} is {times[row]:.16g}, before arrival_s, {arrival_s[row]:.16g}: it must be a "
                    f"time on the same clock, not a duration",
                )
        samples = columns.get("n")
        for row, text in enumerate(columns.get("pauses", ())):
            try:
                pauses = parse(text)
            except ValueError as error:
                rows.reject(row, f"pauses {shown(text)}: {error}")
                continue
            if pauses and samples is not None and samples[row] > 1:
                rows.reject(row, f"pauses do not go with n, which is {samples[row]}")
        for row, request_id in enumerate(columns.get("request_id", ())):
            first = self.taken.setdefault(request_id, rows.lines[row])
            if request_id == "":
                rows.reject(row, "request_id is missing")
            elif first != rows.lines[row]:
                rows.reject(row, f"request_id {shown(request_id)} is that of line {first}")

    def block_tokens(self, cells: Mapping[str, Cells]) -> int:
        """What one id of prefix_hashes covers: the option, else what the first row says."""
        tokens = self.hash_block_tokens
        if tokens is None and "hash_block_tokens" in cells:
            sizes = self.rows.integers("hash_block_tokens", cells["hash_block_tokens"], least=1, absent=NO_SIZE)
            self.rows.check()
            tokens = next((size for size in sizes.tolist() if size > 0), None)
        if tokens is None:
            raise ValueError(f"{self.rows.path}: prefix_hashes needs trace.hash_block_tokens, the tokens that one id covers")
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
            raise ValueError(f"trace.hash_block_tokens is {tokens}, must be an integer of at least 1")
        return tokens

    def check_block_tokens(self, cells: Mapping[str, Cells]) -> None:
        """Rejects rows with another value than the first of the file, unless the option gives it."""
        if self.hash_block_tokens is not None or "hash_block_tokens" not in cells or self.content is None:
            return
        tokens = self.content.hash_block_tokens
        sizes = self.rows.integers("hash_block_tokens", cells["hash_block_tokens"], least=1, absent=NO_SIZE)
        for row in np.flatnonzero((sizes != tokens) & (sizes > 0)).tolist():
            self.rows.reject(row, f"hash_block_tokens is {sizes[row]}, but {tokens} above: one value a file")


def in_seconds(columns: Columns, time_unit: str | None, report: Report) -> None:
    """Absolute times from `time_unit`; without one, times that can only be an epoch's in ms, us or ns are noted."""
    if time_unit is None:
        earliest = np.asarray(columns["arrival_s"]).min(initial=np.inf)
        time_unit = next((unit for unit in ("ns", "us", "ms") if EPOCHS[unit] <= earliest < np.inf), "s")
        if time_unit != "s":
            report.notes.append(f"arrival_s looks like {time_unit} since 1970 and was read so (trace.time_unit=s: no)")
    if time_unit != "s":
        for name in ("arrival_s", "deadline_s", "abort_s"):
            if name in columns:
                columns[name] = np.asarray(columns[name]) / UNITS[time_unit]


def named(names: object) -> bool:
    """Whether the columns of a file look like this table's: one of the required is enough, errors name the rest."""
    return bool(set(REQUIRED) & set(names))  # type: ignore[call-overload]


CSV = Reader("csv", "this project's table as CSV", lambda source: named(header(source)), read_csv)
JSONL = Reader("jsonl", "this project's table as JSONL", lambda source: named(first_keys(source)), read_jsonl)
PARQUET = Reader("parquet", "this project's table as Parquet", lambda source: source.kind == "parquet", read_parquet)
