"""Confidence intervals of a mean from few repetitions, by Student's t."""

from math import atan, cos, pi, sin, sqrt
from statistics import fmean, stdev


def mean_and_half_width(values: list[float], confidence: float = 0.95) -> tuple[float, float]:
    """The mean, and how far the two-sided interval reaches to either side of it. Needs two values or more."""
    return fmean(values), t_quantile(len(values) - 1, confidence) * stdev(values) / sqrt(len(values))


def t_quantile(freedom: int, confidence: float = 0.95) -> float:
    """The t within which Student's distribution has the share `confidence` of its mass, to 1e-9 of itself."""
    low, high = 0.0, 1.0
    while t_within(high, freedom) < confidence:
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, freedom) < confidence else (low, middle)
    return high


def t_within(t: float, freedom: int) -> float:
    """P(|T| <= t) of Student's distribution with a whole number of degrees of freedom.

    The finite sums of Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 26.7.3 and 26.7.4, with
    theta = atan(t / sqrt(freedom)): a sum over even powers of cos(theta) for even, over odd ones for odd freedom.
    """
    theta = atan(t / sqrt(freedom))
    if freedom == 1:
        return 2 * theta / pi
    odd = freedom % 2
    term = cos(theta) if odd else 1.0
    total = term
    for power in range(2 + odd, freedom - 1, 2):
        term *= cos(theta) ** 2 * (power - 1) / power
        total += term
    return 2 / pi * (theta + sin(theta) * total) if odd else sin(theta) * total
