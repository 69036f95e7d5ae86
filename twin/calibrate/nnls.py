"""Least squares with coefficients that are not below zero."""

import numpy as np

MOST_ROUNDS = 30  # a column; the method ends in far fewer unless rounding makes it go in circles


def nnls(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """x >= 0 that minimises |matrix x - target|, by the active-set method of Lawson and Hanson (1974, chapter 23).

    matrix (rows, columns), target (rows,). Columns are brought to one length first, since seconds a step and seconds a
    pair of tokens lie ten orders of magnitude apart.
    """
    length = np.linalg.norm(matrix, axis=0)
    scaled = matrix / np.where(length > 0, length, 1.0)
    columns = scaled.shape[1]
    tolerance = 1e-12 * max(1.0, float(np.linalg.norm(target)))
    free = np.zeros(columns, dtype=bool)  # columns whose coefficient may differ from zero
    x = np.zeros(columns)
    for _ in range(MOST_ROUNDS * columns):
        descent = scaled.T @ (target - scaled @ x)
        descent[free | (length == 0)] = -np.inf
        best = int(descent.argmax()) if columns else 0
        if not columns or descent[best] <= tolerance:
            break
        free[best] = True
        x = _within_bounds(scaled, target, x, free)
    return x / np.where(length > 0, length, 1.0)


def _within_bounds(matrix: np.ndarray, target: np.ndarray, x: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The best x over the free columns that is on the way from the present one and not below zero; drops columns at zero."""
    while True:
        best = np.zeros_like(x)
        best[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
        below = free & (best <= 0)
        if not below.any():
            return best
        share = float((x[below] / np.maximum(x[below] - best[below], 1e-300)).min())
        x = x + share * (best - x)
        free &= x > 1e-15
        x[~free] = 0.0
        if not free.any():
            return x


def triangle(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """R of the QR decomposition of (matrix, target): a problem over its few rows has the same answer for any columns."""
    return np.asarray(np.linalg.qr(np.column_stack((matrix, target)), mode="r"))
