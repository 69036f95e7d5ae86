"""How far a trace is from another, or from what is known of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def kolmogorov_smirnov(first: np.ndarray, second: np.ndarray) -> float:
    """The largest difference of the distribution functions of two samples."""
    places = np.unique(np.concatenate((first, second)))
    shares = [np.searchsorted(np.sort(sample), places, side="right") / len(sample) for sample in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


def distance_at_quantiles(sample: np.ndarray, levels: Sequence[float], quantiles: Sequence[float]) -> float:
    """How far the sample's distribution function is from one of which only quantiles are known, at those.

    A lower bound of the distance of Kolmogorov and Smirnov: between the quantiles it may be larger. Where several
    levels have one quantile, the known function jumps across all of them there.
    """
    ordered = np.sort(sample)
    below = np.searchsorted(ordered, quantiles, side="left") / len(ordered)
    up_to = np.searchsorted(ordered, quantiles, side="right") / len(ordered)
    known = np.asarray(levels)
    return float(max(0.0, (known - up_to).max(), (below - known).max()))
