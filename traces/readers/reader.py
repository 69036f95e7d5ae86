"""What a reader is, and what all of them do with the columns they have read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from traces.readers.content import Ragged
from traces.readers.rows import Rows
from traces.readers.source import Source
from traces.trace import ABSOLUTE, Report, Trace

Column = Any  # an array, a list of text, or a `Ragged`: one entry a row
Columns = dict[str, Column]
SUSPICIOUS_GAP = 0.5  # of the duration: no real load waits so long between two of many requests


@dataclass(frozen=True)
class Reader:
    """A file format: how to know it and how to read it; the keyword-only parameters of `read` are its options."""

    format: str
    about: str
    recognises: Callable[[Source], bool]
    read: Callable[..., Trace]

    def open(self, source: Source, on_error: str, options: Mapping[str, object]) -> Trace:
        """Reads the file; raises ValueError with one line that names what is wrong and where."""
        parameters = inspect.signature(self.read).parameters.values()
        own = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
        for option in options:
            if option not in own:
                has = f"its own are {', '.join(own)}" if own else "it has none"
                raise ValueError(f"trace.{option} is not an option of the format {self.format}: {has}")
        rows = Rows(source.path, on_error)
        return self.read(source, rows, Report(source=f"{source.path} ({self.about})"), **options)


def gathered(rows: Rows, chunks: Iterable[Columns], absent: Mapping[str, object] | None = None) -> Columns:
    """The columns of a file from those of its parts, good rows alone; `absent` fills a column where a part has none.

    Each part is over before the next is asked for: the file is never in memory, only its columns.
    """
    parts: dict[str, list[tuple[int, Column]]] = {}
    sizes: list[int] = []
    for columns in chunks:
        good = rows.finish()
        for name, values in columns.items():
            parts.setdefault(name, []).append((len(sizes), values if good.all() else chosen(values, good)))
        sizes.append(int(np.count_nonzero(good)))
    gathered: Columns = {}
    for name in list(parts):  # one after the other, so that only one is in memory twice
        present = dict(parts.pop(name))
        filler = (absent or {}).get(name)
        gathered[name] = joined([present.get(chunk, [filler] * size) for chunk, size in enumerate(sizes)])
    return gathered


def joined(parts: list[Column]) -> Column:
    """One column from its parts, which are of one kind; lists are taken for parts of an array if others are arrays."""
    if any(isinstance(part, Ragged) for part in parts):
        return Ragged.joined(part if isinstance(part, Ragged) else Ragged.of([()] * len(part)) for part in parts)
    if any(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate([part for part in parts if len(part)] or parts)
    return list(chain.from_iterable(parts))


def chosen(values: Column, rows: np.ndarray) -> Column:
    """These rows of a column, given by number, ascending or not, or by a mask."""
    if isinstance(values, Ragged):
        return values.take(rows)
    if isinstance(values, list):
        return [values[row] for row in (np.flatnonzero(rows) if rows.dtype == bool else rows).tolist()]
    return values[rows]


def assembled(rows: Rows, report: Report, columns: Columns, hash_block_tokens: int = 1) -> Trace:
    """The trace of these columns, sorted by arrival, the first at 0 s; the report says what else there was.

    `columns` are those of `Trace`, of all good rows of the file, and are used up; `content` holds the ids of blocks of
    `hash_block_tokens` tokens. The origin of `arrival_s` is taken off all absolute times.
    """
    report.read = rows.read
    report.drop("malformed rows", rows.malformed)
    if rows.malformed:
        report.notes.append(f"the first malformed row: {rows.first_problem}")
    answered = np.asarray(columns.get("output_tokens", ())) > 0
    report.drop("no output tokens", int(np.count_nonzero(~answered)))
    kept = np.flatnonzero(answered)
    if not len(kept):
        dropped = ", ".join(f"{count} {reason}" for reason, count in report.dropped.items())
        raise ValueError(f"{rows.path}: no requests left of {rows.read} rows: {dropped or 'there are none'}")

    arrival_s = np.asarray(columns["arrival_s"])[kept]
    disorder = int(np.count_nonzero(np.diff(arrival_s) < 0))
    if disorder:
        report.notes.append(f"{disorder:,} requests arrive before the one above them: sorted by arrival")
        kept = kept[np.argsort(arrival_s, kind="stable")]
    origin_s = float(arrival_s.min())
    if disorder or len(kept) < len(answered):
        for name in list(columns):
            columns[name] = chosen(columns[name], kept)
    for name in ("arrival_s", *ABSOLUTE):
        if name in columns and origin_s != 0:
            columns[name] = np.asarray(columns[name]) - origin_s
    note_gap(report, np.asarray(columns["arrival_s"]))
    content = columns.pop("content", None)
    prefix = None
    if isinstance(content, Ragged):
        prefix = content.prefix(hash_block_tokens, np.asarray(columns["prompt_tokens"]))
    return Trace(name=rows.path.stem, prefix=prefix, report=report, **columns)


def note_gap(report: Report, arrival_s: np.ndarray) -> None:
    """Says so when one gap is most of the trace: times of two origins look like this."""
    if len(arrival_s) < 3:
        return
    gaps = np.diff(arrival_s)
    widest = int(np.argmax(gaps))
    if gaps[widest] > SUSPICIOUS_GAP * arrival_s[-1]:
        report.notes.append(
            f"the largest gap between arrivals, {gaps[widest]:,.6g} s before request {widest + 1}, is "
            f"{100 * gaps[widest] / arrival_s[-1]:.0f} % of the trace: are the times of one origin and unit?"
        )
