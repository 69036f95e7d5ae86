"""Means and percentiles of plain and of weighted samples, by numpy's `linear` method."""

from collections.abc import Sequence
from typing import Final

import numpy as np

PERCENTILES = (50, 90, 95, 99)
METHOD: Final = "linear"  # numpy's name: Hyndman and Fan (1996), type 7


def weighted_percentiles(values: np.ndarray, counts: np.ndarray, percents: Sequence[float]) -> np.ndarray:
    """`np.percentile(np.repeat(values, counts), percents)`, to the last bit, without building the repeated sample.

    `values` float64 in any order, `counts` int64 >= 0, both of shape [n]; the sum of the counts must not be 0.
    """
    order = np.argsort(values, kind="stable")
    ordered = np.asarray(values, dtype=np.float64)[order]
    ends = np.cumsum(counts[order])  # ordered[i] fills the places ends[i - 1] .. ends[i] - 1 of the repeated sample
    last = int(ends[-1]) - 1
    place = last * (np.asarray(percents, dtype=np.float64) / 100.0)
    below = np.floor(place).astype(np.int64)
    low = ordered[np.searchsorted(ends, below, side="right")]
    high = ordered[np.searchsorted(ends, np.minimum(below + 1, last), side="right")]
    # numpy interpolates from the nearer end, so that the result never leaves [low, high]; so must we for equal bits.
    fraction, gap = place - below, high - low
    return np.where(fraction < 0.5, low + gap * fraction, high - gap * (1.0 - fraction))


def statistics(name: str, values: np.ndarray, counts: np.ndarray | None = None) -> dict[str, float | int | None]:
    """`{name}_mean`, `_p50`, `_p90`, `_p95`, `_p99` of a sample, and its size as `_n`; nan is left out, {} is None."""
    known = ~np.isnan(values)
    if not known.all():
        values, counts = values[known], None if counts is None else counts[known]
    size = len(values) if counts is None else int(counts.sum())
    if size == 0:
        return {f"{name}_{key}": None for key in ("mean", *(f"p{p}" for p in PERCENTILES))} | {f"{name}_n": 0}
    if counts is None:
        mean, percentiles = float(values.mean()), np.percentile(values, list(PERCENTILES), method=METHOD)
    else:
        mean, percentiles = float(values @ counts) / size, weighted_percentiles(values, counts, PERCENTILES)
    found = {f"{name}_p{percent}": float(value) for percent, value in zip(PERCENTILES, percentiles, strict=True)}
    return {f"{name}_mean": mean, **found, f"{name}_n": size}
