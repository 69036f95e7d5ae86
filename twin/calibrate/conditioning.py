"""Which terms the measured steps cannot tell apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CORRELATED = 0.99  # of the errors of two coefficients: only a combination is known
SAME = 1 - 1e-9  # cosine of two columns that are one but for a factor


def unit_columns(rows: np.ndarray) -> np.ndarray:
    """(steps, terms) -> the same, each column of length 1: seconds a step and seconds a token become comparable."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=0), 1e-300))


def condition_number(rows: np.ndarray) -> float:
    """Ratio of the largest and the least singular value of the columns brought to one length: 1 is best."""
    values = np.linalg.svd(unit_columns(rows), compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > 1e-14 * values[0] else float("inf")


def duplicates(rows: np.ndarray) -> dict[int, int]:
    """{column: an earlier one that says the same in these steps}."""
    unit = unit_columns(rows)
    alike = unit.T @ unit
    found: dict[int, int] = {}
    for later in range(alike.shape[0]):
        for earlier in range(later):
            if alike[earlier, later] > SAME and earlier not in found:
                found[later] = earlier
                break
    return found


def inseparable(rows: np.ndarray) -> list[tuple[int, int, float]]:
    """Pairs of columns, and how the errors of their coefficients correlate: what one has too much, the other lacks.

    The covariance of least-squares coefficients is the inverse of rows' rows, but for a factor.
    """
    unit = unit_columns(rows)
    covariance = np.linalg.pinv(unit.T @ unit, hermitian=True)
    sd = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = covariance / np.outer(sd, sd)
    count = len(sd)
    pairs = [(first, second) for first in range(count) for second in range(first + 1, count)]
    return [(a, b, float(correlation[a, b])) for a, b in pairs if abs(correlation[a, b]) > CORRELATED]


def doubts(rows: np.ndarray, names: Sequence[str]) -> list[str]:
    """A line for each pair of terms of which only a combination is known."""
    return [
        f"{names[first]} and {names[second]} cannot be told apart in these steps (their errors correlate by {value:+.3f}): "
        f"a combination of them is known, each alone is not"
        for first, second, value in inseparable(rows)
    ]
