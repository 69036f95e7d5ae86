"""One of some values, each with its probability: what `choice(a:p,b:q)` means for tokens and for seconds alike."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from traces.expressions import Pair


def check_pairs(pairs: tuple[Pair, ...], check_value: Callable[[str, float], object]) -> None:
    """ValueError unless every value passes `check_value(name, value)` and the probabilities sum to 1 (to 1e-6)."""
    if not pairs or not all(isinstance(pair, Pair) for pair in pairs):
        raise ValueError("choice takes value:probability, one or more")
    for pair in pairs:
        check_value("value", pair.value)
        if not 0 <= pair.weight <= 1:
            raise ValueError(f"the probability of {pair.value} is {pair.weight}, must be from 0 to 1")
    total = math.fsum(pair.weight for pair in pairs)
    if abs(total - 1) > 1e-6:
        raise ValueError(f"the probabilities sum to {total:g}, not to 1")


def pick(pairs: tuple[Pair, ...], uniforms: np.ndarray, dtype: type) -> np.ndarray:
    """The value that each uniform in [0, 1) falls on."""
    possible = [pair for pair in pairs if pair.weight > 0]
    bounds = np.cumsum([pair.weight for pair in possible])[:-1]  # the last takes what rounding leaves
    return np.array([pair.value for pair in possible], dtype)[np.searchsorted(bounds, uniforms, side="right")]
