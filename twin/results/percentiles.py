"""Means and percentiles of plain and of weighted samples, by numpy's `linear` method."""

from collections.abc import Sequence
from typing import Final

import numpy as np

PERCENTILES = (50, 90, 95, 99)
BIN_SHIFT = 44  # of a float's 64 bits: sign, exponent and 8 bits of the mantissa stay, a 256th of an octave a bin
METHOD: Final = "linear"  # numpy's name: Hyndman and Fan (1996), type 7


def weighted_percentiles(values: np.ndarray, counts: np.ndarray, percents: Sequence[float]) -> np.ndarray:
    """`np.percentile(np.repeat(values, counts), percents)`, to the last bit, without building the repeated sample.

    `values` float64 in any order, `counts` int64 >= 0, both of shape [n]; the sum of the counts must not be 0.
    """
    values = np.asarray(values, dtype=np.float64)
    neighbours, fraction = _neighbours(int(counts.sum()), percents)
    return _between(_at_places(values, counts, neighbours), fraction)


def percentiles(values: np.ndarray, percents: Sequence[float]) -> np.ndarray:
    """`np.percentile(values, percents)`, to the last bit; numpy's own would import its masked arrays for it."""
    neighbours, fraction = _neighbours(len(values), percents)
    return _between(np.partition(values, sorted(set(neighbours.ravel().tolist())))[neighbours], fraction)


def _neighbours(size: int, percents: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The places (from 0) of a sorted sample below and above each percentile, shape [2, percents], and how far between."""
    place = (size - 1) * (np.asarray(percents, dtype=np.float64) / 100.0)
    below = np.floor(place).astype(np.int64)
    return np.stack((below, np.minimum(below + 1, size - 1))), place - below


def _between(values: np.ndarray, fraction: np.ndarray) -> np.ndarray:
    """As numpy, from the nearer of the two, so that the result never leaves them; so must we for equal bits."""
    low, high = values
    gap = high - low
    return np.where(fraction < 0.5, low + gap * fraction, high - gap * (1.0 - fraction))


def _at_places(values: np.ndarray, counts: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The values at these places (from 0) of the sorted repeated sample; only the bins that hold them are sorted.

    A bin is all values with the same sign, exponent and first bits of the mantissa. Floats of one sign are ordered as
    their bits are; a sample with negative values is one bin.
    """
    bits = (values + 0.0).view(np.int64) >> BIN_SHIFT  # -0.0 becomes 0.0
    bins = bits - bits.min() if values.min() >= 0 else np.zeros(len(values), dtype=np.int64)
    ends = np.cumsum(np.bincount(bins, weights=counts)).astype(np.int64)  # exact below 2**53 tokens
    found, wanted = np.empty(places.shape), np.searchsorted(ends, places, side="right")
    for number in sorted(set(wanted.ravel().tolist())):
        inside = np.flatnonzero(bins == number)
        inside = inside[np.argsort(values[inside], kind="stable")]
        before = int(ends[number - 1]) if number else 0
        here = wanted == number
        found[here] = values[inside[np.searchsorted(before + np.cumsum(counts[inside]), places[here], side="right")]]
    return found


def statistics(name: str, values: np.ndarray, counts: np.ndarray | None = None) -> dict[str, float | int | None]:
    """`{name}_mean`, `_p50`, `_p90`, `_p95`, `_p99` of a sample, and its size as `_n`; nan is left out, {} is None."""
    known = ~np.isnan(values)
    if not known.all():
        values, counts = values[known], None if counts is None else counts[known]
    size = len(values) if counts is None else int(counts.sum())
    if size == 0:
        return {f"{name}_{key}": None for key in ("mean", *(f"p{p}" for p in PERCENTILES))} | {f"{name}_n": 0}
    if counts is None:
        mean, at = float(values.mean()), percentiles(values, PERCENTILES)
    else:
        mean, at = float(values @ counts) / size, weighted_percentiles(values, counts, PERCENTILES)
    found = {f"{name}_p{percent}": float(value) for percent, value in zip(PERCENTILES, at, strict=True)}
    return {f"{name}_mean": mean, **found, f"{name}_n": size}
