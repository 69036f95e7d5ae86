"""The table that everything else reads: one row a request, sorted by arrival."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from traces.pauses import Pause, parse
from traces.prefix import Prefix

INTEGERS = {"prompt_tokens": 1, "output_tokens": 1, "max_tokens": -1, "turn": None, "priority": None, "n": 1}  # least
SECONDS = ("arrival_s", "think_s", "deadline_s", "abort_s")
TEXTS = ("request_id", "user", "session", "pauses")
ON_ERROR = ("error", "skip")  # what may become of a malformed row: it stops the reading, or is counted and dropped
ABSOLUTE = ("deadline_s", "abort_s")  # times on the clock of `arrival_s`: they move with it


@dataclass
class Report:
    """What was read, what was dropped and why, and what a user should know of the trace."""

    source: str = ""
    read: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    timed: bool = True  # whether the source tells when requests arrive

    def drop(self, reason: str, count: int) -> None:
        """Counts `count` more rows dropped for `reason`; nothing happens for a count of zero."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + int(count)

    def noting(self, note: str) -> Report:
        """A copy with one more note."""
        return replace(self, dropped=dict(self.dropped), notes=[*self.notes, note])

    def lines(self) -> list[str]:
        """The report in words, one line a fact, for the terminal."""
        dropped = [f"dropped {count:,}: {reason}" for reason, count in self.dropped.items()]
        return [f"{self.source}: {self.read:,} requests read", *dropped, *self.notes]


@dataclass(frozen=True)
class ClosedLoop:
    """`users` requests are in the system at once: when one ends, the next arrives after `think_s` seconds."""

    users: int
    think_s: float = 0.0


@dataclass(frozen=True, eq=False)
class Trace:
    """Requests in order of arrival. Times in seconds from the first arrival, lengths in tokens.

    Columns are arrays (or lists of text) of one length; None where a column is absent. Where single values are
    absent: -1 in `max_tokens`, nan in times, "" in text. `deadline_s` and `abort_s` are absolute; the text of `pauses`
    is that of pauses.py. Request i + users of a `closed` trace arrives when a running one ends, so its `arrival_s` is nan.

    Raises ValueError when the columns do not make a trace (lengths differ, unsorted, a length below 1).
    """

    name: str
    arrival_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    request_id: list[str] | None = None
    max_tokens: np.ndarray | None = None
    user: list[str] | None = None
    session: list[str] | None = None
    turn: np.ndarray | None = None
    think_s: np.ndarray | None = None
    priority: np.ndarray | None = None
    deadline_s: np.ndarray | None = None
    n: np.ndarray | None = None
    abort_s: np.ndarray | None = None
    pauses: list[str] | None = None
    prefix: Prefix | None = None
    closed: ClosedLoop | None = None
    report: Report = field(default_factory=Report)

    def __post_init__(self) -> None:
        for column, kind in [(name, np.int64) for name in INTEGERS] + [(name, np.float64) for name in SECONDS]:
            if getattr(self, column) is not None:
                object.__setattr__(self, column, np.asarray(getattr(self, column), dtype=kind))
        for column in (*INTEGERS, *SECONDS, *TEXTS, "prefix"):
            values = getattr(self, column)
            if values is not None and len(values) != len(self):
                raise ValueError(f"trace {self.name}: {column} has {len(values)} entries, arrival_s has {len(self)}")
        if not len(self):
            raise ValueError(f"trace {self.name}: no requests")
        for column, least in INTEGERS.items():
            values = getattr(self, column)
            if least is not None and values is not None and values.min() < least:
                raise ValueError(f"trace {self.name}: {column} is {values.min()} somewhere, must be at least {least}")
        known = self.arrival_s if self.closed is None else self.arrival_s[: self.closed.users]
        if not np.all(np.isfinite(known)) or known[0] < 0 or np.any(np.diff(known) < 0):
            raise ValueError(f"trace {self.name}: arrival_s must be finite, sorted and not negative")

        self._check_pauses()

    def _check_pauses(self) -> None:
        for row, text in enumerate(self.pauses or ()):
            try:
                pauses = parse(text)
            except ValueError as error:
                raise ValueError(f"trace {self.name}: pauses of row {row}: {error}") from error
            if pauses and self.n is not None and self.n[row] > 1:
                raise ValueError(f"trace {self.name}: row {row} has n={self.n[row]}: several samples cannot pause")

    def __len__(self) -> int:
        return len(self.arrival_s)

    def ids(self) -> list[str]:
        """The request ids: those given, else the row numbers from 0."""
        return self.request_id if self.request_id is not None else self._row_numbers

    @cached_property
    def _row_numbers(self) -> list[str]:
        """Made once, for whoever asks: a million take 60 MB."""
        return [str(row) for row in range(len(self))]

    def pauses_of(self, row: int) -> tuple[Pause, ...]:
        """When that request pauses: (after so many output tokens, seconds, tokens returned)."""
        return () if self.pauses is None else parse(self.pauses[row])

    def columns(self) -> dict[str, np.ndarray | list[str]]:
        """The columns that are present, by name, in the order of the class (without `prefix`)."""
        names = [f.name for f in fields(self) if f.name in (*INTEGERS, *SECONDS, *TEXTS)]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def take(self, rows: np.ndarray) -> Trace:
        """The requests of these rows, which must be ascending; ids given by row number are those of the new rows."""
        changed: dict[str, object] = {}
        for name, values in self.columns().items():
            changed[name] = [values[row] for row in rows] if isinstance(values, list) else values[rows]
        if self.prefix is not None:
            changed["prefix"] = self.prefix.take(rows)
        return replace(self, **changed)  # type: ignore[arg-type]

    def limit(self, num_requests: int | None = None, duration_s: float | None = None) -> Trace:
        """The first `num_requests` requests, of those that arrive before `duration_s`; None does not limit."""
        count = len(self)
        if num_requests is not None:
            if num_requests < 1:
                raise ValueError(f"trace.num_requests is {num_requests}, must be at least 1")
            count = min(count, num_requests)
        if duration_s is not None:
            if not duration_s > 0:
                raise ValueError(f"trace.duration_s is {duration_s}, must be more than 0 seconds")
            if self.closed is not None:
                raise ValueError(
                    "trace.duration_s does not go with closed(...), whose arrivals are not known before "
                    "the run: use trace.num_requests"
                )
            count = min(count, int(np.searchsorted(self.arrival_s, duration_s, side="left")))
        if count == len(self):
            return self
        if count == 0:
            raise ValueError(f"trace {self.name}: no request arrives in the first {duration_s} s")
        return replace(self.take(np.arange(count)), report=self.report.noting(f"the first {count:,} of {len(self):,}"))

    def rescaled(self, rate: float) -> Trace:
        """The same requests at a mean rate of `rate` requests/s: (n - 1) / (last - first arrival) becomes `rate`.

        Deadlines and aborts keep their distance from the arrival; think times stay as they are. Requests of which the
        source tells no arrivals are spaced evenly.
        """
        if not 0 < rate < math.inf:
            raise ValueError(f"trace.rate is {rate}, must be more than 0 requests/s")
        if self.closed is not None:
            raise ValueError("trace.rate does not go with closed(...): the users decide the rate")
        if len(self) == 1:
            return self
        span_s = float(self.arrival_s[-1] - self.arrival_s[0])
        if span_s == 0 and not self.report.timed:
            note = f"arrivals spaced evenly, {rate:.4g} requests/s"
            return replace(self, arrival_s=np.arange(len(self)) / rate, report=self.report.noting(note))
        if span_s == 0:
            raise ValueError(f"trace.rate does not go with trace {self.name}: all its requests arrive at once")
        arrival_s = self.arrival_s[0] + (self.arrival_s - self.arrival_s[0]) * ((len(self) - 1) / rate / span_s)
        moved = {
            name: getattr(self, name) + (arrival_s - self.arrival_s) for name in ABSOLUTE if getattr(self, name) is not None
        }
        note = f"arrivals rescaled from {(len(self) - 1) / span_s:.4g} to {rate:.4g} requests/s"
        return replace(self, arrival_s=arrival_s, report=self.report.noting(note), **moved)
