"""Averages over time of what the steps table says only at the ends of its rows."""

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
    for replica in np.unique(steps["replica"]):
        index = np.flatnonzero(steps["replica"] == replica)
        start_s = steps["start_s"][index]
        # A row never reaches into the next: start + duration may exceed the next start by a rounding error.
        end_s = np.minimum(ends_s[index], np.append(start_s[1:], np.inf))
        found.append(Rows(start_s, end_s, index))
    return found


def time_mean(
    rows: Rows,
    after: np.ndarray,
    start_s: float,
    end_s: float,
    during: np.ndarray | None = None,
    single: np.ndarray | None = None,
) -> float:
    """Time average over [start_s, end_s] of a quantity that is `after` at the end of each row.

    Inside a row it goes linearly from what it was before to `after`; between two rows it stays what it was, and before
    the first it is 0. Where `during` gives the value of each row's last step, before that step's releases, a row goes
    to that and falls to `after` at its end; a row of one `single` step has it from its beginning.
    """
    # Only the rows that reach into the window, and the one before them, whose value holds until the first begins.
    first = max(0, int(np.searchsorted(rows.end_s, start_s)) - 1)
    part = slice(first, int(np.searchsorted(rows.start_s, end_s, side="right")))
    before = np.concatenate(([after[first - 1] if first else 0.0], after[part]))[:-1]
    start, end, last = rows.start_s[part], rows.end_s[part], after[part].astype(np.float64)
    held = last
    if during is not None and single is not None:
        last = during[part].astype(np.float64)
        before = np.where(single[part], last, before)
    slope = np.divide(last - before, end - start, out=np.zeros(len(start)), where=end > start)
    left, right = np.clip(start, start_s, end_s), np.clip(end, start_s, end_s)
    middle = before + slope * ((left + right) / 2 - start)
    pause = np.clip(np.append(start[1:], np.inf), start_s, end_s) - right
    return float((middle * (right - left)).sum() + (held * pause).sum()) / (end_s - start_s)
