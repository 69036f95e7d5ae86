"""Fewer points that look the same: a curve of a million points is drawn with a thousand."""

from typing import NamedTuple

import numpy as np

from twin.results.timeweighted import Rows


def cumulative(values: np.ndarray, points: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """The empirical distribution: sorted values and the share of the sample that is not above each.

    Of a large sample the two extremes, the tail and every so many are kept, so that shares are exact where drawn.
    """
    ordered = np.sort(values[~np.isnan(values)])
    size = len(ordered)
    ranks = np.arange(size)
    if size > points:
        spread = np.linspace(0, size - 1, points).astype(np.int64)
        ranks = np.unique(np.concatenate((spread, np.arange(size - points // 10, size))))
    return ordered[ranks], (ranks + 1) / size if size else ordered


class Curve(NamedTuple):
    """A quantity over time: its mean, least and greatest value in each span; all three are one for a short run."""

    times_s: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def exact(self) -> bool:
        return self.low is self.high


def over_time(rows: Rows, after: np.ndarray, bins: int = 400) -> Curve:
    """The quantity that is `after` at each row's end, constant between rows: blocks in use, or running tokens.

    Within a row it rises linearly, as sequences grow; it falls at the row's end, when something has been given back.
    """
    if not len(after):
        return _spans(np.empty(0), np.empty(0), bins)
    after = after.astype(np.float64)
    before = np.concatenate(([0.0], after[:-1]))
    times = np.stack((rows.start_s, rows.end_s, rows.end_s), axis=1).ravel()
    values = np.stack((before, np.maximum(before, after), after), axis=1).ravel()
    return _spans(times, values, bins)


def held(rows: Rows, after: np.ndarray, bins: int = 400) -> Curve:
    """The quantity that becomes `after` at each row's end and stays so until the next one ends: who waits, who runs."""
    times = np.concatenate((rows.start_s[:1], rows.end_s)).repeat(2)[1:]
    values = np.concatenate(([0.0][: len(after)], after)).repeat(2)[: len(times)]
    return _spans(times, values, bins)


def during(rows: Rows, value: np.ndarray, bins: int = 400) -> Curve:
    """The quantity that is `value` while each row lasts, and 0 between them: what a step computes."""
    paused = rows.start_s[1:] > rows.end_s[:-1]
    ends = np.full(min(len(value), 1), True)
    rises = np.where(np.concatenate((ends, paused)), 0.0, value)
    falls = np.where(np.concatenate((paused, ends)), 0.0, value)
    times = np.stack((rows.start_s, rows.start_s, rows.end_s, rows.end_s), axis=1).ravel()
    return _spans(times, np.stack((rises, value, value, falls), axis=1).ravel(), bins)


def _spans(times: np.ndarray, values: np.ndarray, bins: int) -> Curve:
    """A polyline (which may jump) as it is; one of more than 4 * bins points cut into `bins` equal spans of time.

    So none of its peaks is lost.
    """
    if len(times) <= 4 * bins or times[-1] <= times[0]:
        return Curve(times, values, values, values)
    edges = np.linspace(times[0], times[-1], bins + 1)
    area = np.concatenate(([0.0], np.cumsum((values[1:] + values[:-1]) / 2 * np.diff(times))))
    mean = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    at_edges = np.interp(edges, times, values)
    span = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, bins - 1)
    low, high = np.minimum(at_edges[:-1], at_edges[1:]), np.maximum(at_edges[:-1], at_edges[1:])
    first = np.flatnonzero(np.diff(span, prepend=-1))
    low[span[first]] = np.minimum(low[span[first]], np.minimum.reduceat(values, first))
    high[span[first]] = np.maximum(high[span[first]], np.maximum.reduceat(values, first))
    return Curve((edges[:-1] + edges[1:]) / 2, mean, low, high)


def thinned(size: int, most: int) -> np.ndarray:
    """At most so many of the indices 0 .. size - 1, evenly spread, with the first and the last."""
    return np.arange(size) if size <= most else np.unique(np.linspace(0, size - 1, most).round().astype(np.int64))
