"""How far the mean of correlated values may lie from the truth."""

import numpy as np
from scipy.stats import t as student

BATCHES = 30


def batch_means(values: np.ndarray, warmup: int = 0) -> tuple[float, float]:
    """Mean and half-width of its 95 % confidence interval, by batch means (Law and Kelton, 1979): the values, in the order
    in which they came, in `BATCHES` equal batches, whose means are taken for independent."""
    size = (len(values) - warmup) // BATCHES
    means = values[len(values) - size * BATCHES :].reshape(BATCHES, size).mean(axis=1)
    half = student.ppf(0.975, BATCHES - 1) * means.std(ddof=1) / BATCHES**0.5
    return float(means.mean()), float(half)
