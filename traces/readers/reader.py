"""What a reader is, and what all of them do with the columns they have read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from traces.prefix import Prefix
from traces.readers.rows import Rows
from traces.readers.source import Source
from traces.trace import ABSOLUTE, Report, Trace

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


def assembled(
    rows: Rows, report: Report, columns: dict[str, np.ndarray | list[str]], content: Prefix | None = None
) -> Trace:
    """The trace of the good rows, sorted by arrival, the first at 0 s; the report says what else there was.

    `columns` are those of `Trace`, one entry a row of the file, `content` likewise. The origin of `arrival_s` is
    taken off all absolute times.
    """
    report.read = len(rows)
    good = rows.good()
    report.drop("malformed rows", int(np.count_nonzero(~good)))
    answered = np.asarray(columns["output_tokens"]) > 0
    report.drop("no output tokens", int(np.count_nonzero(good & ~answered)))
    kept = np.flatnonzero(good & answered)
    if not len(kept):
        dropped = ", ".join(f"{count} {reason}" for reason, count in report.dropped.items())
        raise ValueError(f"{rows.path}: no requests left of {len(rows)} rows: {dropped}")

    arrival_s = np.asarray(columns["arrival_s"])[kept]
    disorder = int(np.count_nonzero(np.diff(arrival_s) < 0))
    if disorder:
        report.notes.append(f"{disorder:,} requests arrive before the one above them: sorted by arrival")
        kept = kept[np.argsort(arrival_s, kind="stable")]
    origin_s = float(arrival_s.min())
    chosen: dict[str, np.ndarray | list[str]] = {}
    for name, values in columns.items():
        chosen[name] = [values[row] for row in kept] if isinstance(values, list) else values[kept]
        if name in ("arrival_s", *ABSOLUTE) and origin_s != 0:
            chosen[name] = np.asarray(chosen[name]) - origin_s
    note_gap(report, np.asarray(chosen["arrival_s"]))
    prefix = None if content is None else content.take(kept)
    return Trace(name=rows.path.stem, prefix=prefix, report=report, **chosen)  # type: ignore[arg-type]


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
