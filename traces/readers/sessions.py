"""Sessions in a file: which turn of its session a request is, and how long the user thought before it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from traces.readers.reader import Columns
from traces.trace import Report


def number_turns(columns: Columns, report: Report, elapsed_s: np.ndarray | None = None) -> None:
    """Adds `turn` (from 1, by arrival within the session; 0 without a session) and `think_s` to whole columns.

    Thinking is the time from the end of the answer before, arrival + `elapsed_s`, to the arrival; where no end is known,
    from the arrival before. It is nan for first turns.
    """
    arrival_s = np.asarray(columns["arrival_s"])
    session: Iterable[object] = columns["session"]
    numbers: dict[object, int] = {}
    group = np.fromiter((numbers.setdefault(name, len(numbers)) for name in session), np.int64, len(arrival_s))
    order = np.lexsort((arrival_s, group))  # stable: the order of the file among equal times
    begins = np.ones(len(order), bool)
    begins[1:] = np.diff(group[order]) != 0
    place = np.arange(len(order))
    turn = np.zeros(len(order), np.int64)
    turn[order] = place - np.maximum.accumulate(np.where(begins, place, 0)) + 1
    ended_s = arrival_s if elapsed_s is None else arrival_s + elapsed_s
    think_s = np.full(len(order), np.nan)
    think_s[order[1:]] = np.maximum(arrival_s[order[1:]] - ended_s[order[:-1]], 0)
    think_s[order[begins]] = np.nan
    none = group == numbers.get("", -1)
    turn[none], think_s[none] = 0, np.nan
    columns.setdefault("turn", turn)
    columns["think_s"] = think_s
    sessions = len(numbers) - ("" in numbers)
    since = "arrival" if elapsed_s is None else "end"
    report.notes.append(f"{sessions:,} sessions; think times are from the {since} of the turn before to the arrival")
