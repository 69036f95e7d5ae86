"""Averages over time of what the steps table says only at the ends of its rows."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from twin.results.columns import Table


class Rows(NamedTuple):
    """The rows of one replica: when each began and ended, and where they are in the table."""

    start_s: np.ndarray
    end_s: np.ndarray
    at: np.ndarray


def replicas(steps: Table) -> list[Rows]:
    """The rows of each replica, in order."""
    ends_s = steps["start_s"] + steps["duration_s"]
    found = []
    for index in _places(steps["replica"]):
        start_s = steps["start_s"][index]
        # A row never reaches into the next: start + duration may exceed the next start by a rounding error.
        end_s = np.minimum(ends_s[index], np.append(start_s[1:], np.inf))
        found.append(Rows(start_s, end_s, index))
    return found


def _places(replica: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of each replica; where there is one, nothing need be sorted."""
    if not len(replica) or (replica == replica[0]).all():
        yield from [np.arange(len(replica))] if len(replica) else []
        return
    for number in np.unique(replica):
        yield np.flatnonzero(replica == number)


def time_mean(rows: Rows, after: np.ndarray, start_s: float, end_s: float, during: np.ndarray | None = None) -> float:
    """Time average over [start_s, end_s] of a quantity that is `after` at the end of each row.

    Between two rows it stays what it was, and before the first it is 0. Inside a row it is `during`, the mean over the
    row's steps; where that is not told it goes linearly from what it was before to `after`.
    """
    # Only the rows that reach into the window, and the one before them, whose value holds until the first begins.
    first = max(0, int(np.searchsorted(rows.end_s, start_s)) - 1)
    part = slice(first, int(np.searchsorted(rows.start_s, end_s, side="right")))
    start, end, last = rows.start_s[part], rows.end_s[part], after[part].astype(np.float64)
    left, right = np.clip(start, start_s, end_s), np.clip(end, start_s, end_s)
    if during is not None:
        inside = during[part]
    else:
        before = np.concatenate(([after[first - 1] if first else 0.0], last))[:-1]
        slope = np.divide(last - before, end - start, out=np.zeros(len(start)), where=end > start)
        inside = before + slope * ((left + right) / 2 - start)
    pause = np.clip(np.append(start[1:], np.inf), start_s, end_s) - right
    return float((inside * (right - left)).sum() + (last * pause).sum()) / (end_s - start_s)
