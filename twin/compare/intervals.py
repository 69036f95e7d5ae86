"""Confidence intervals: from several seeds by Student's t, from one run by sections of it."""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from twin.cli.intervals import t_quantile

SECTIONS = (20, 10, 5)  # Schmeiser, Batch size effects in the analysis of simulation output, 1982: more than 30 give little
LEAST = 10  # observations in a section, whatever is estimated


class Interval(NamedTuple):
    """A figure, how far its interval reaches to either side (None: cannot be said), and from what."""

    value: float
    half: float | None
    parts: int = 1  # seeds or sections
    correlated: bool = False  # tenths of the run are still alike: the interval may well be too narrow

    def excludes_zero(self) -> bool | None:
        """Whether 0 lies outside; None without an interval."""
        return None if self.half is None else abs(self.value) > self.half


Statistic = Callable[[np.ndarray], float]  # of the rows of a section: what is estimated, nan where it is not defined


def of_replicates(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean of independent replications; no interval of fewer than two."""
    known = np.asarray(values, dtype=np.float64)
    if np.isnan(known).any():
        return Interval(float("nan"), None, len(known))
    value = float(known.mean())
    if len(known) < 2:
        return Interval(value, None, len(known))
    error = float(known.std(ddof=1)) / sqrt(len(known))
    return Interval(value, t_quantile(len(known) - 1, confidence) * error, len(known))


def of_sections(rows: np.ndarray, statistic: Statistic, least: int = LEAST, confidence: float = 0.95) -> Interval:
    """A statistic of a correlated series and its interval by sectioning.

    `rows` are cut into b equal stretches; with the statistic T of all and T_j of each, the interval is
    T +- t_{b-1} sqrt(sum (T_j - T)^2 / (b (b - 1))): batch means for a mean, and right for percentiles too, around the
    estimate that all rows give (Asmussen and Glynn, Stochastic Simulation, 2007, III.5; Nakayama, Confidence intervals for
    quantiles using sectioning when applying variance-reduction techniques, TOMACS 24, 2014). b is 20, or 10 or 5 while
    neighbouring sections are correlated (von Neumann's ratio of successive differences, one-sided 5 %) or shorter than
    `least`; shorter still: no interval. Ten that are correlated make the result doubtful: of five no test can tell.
    """
    value = statistic(rows)
    found, doubtful = Interval(value, None), False
    for count in SECTIONS:
        if len(rows) < count * max(least, LEAST):
            continue
        each = np.array([statistic(part) for part in np.array_split(rows, count)])
        if np.isnan(each).any() or np.isnan(value):
            continue
        error = sqrt(float(((each - value) ** 2).sum()) / (count * (count - 1)))
        half = error * longer_side(each, t_quantile(count - 1, confidence))
        alike = _correlated(each)
        if not alike:
            return Interval(value, half, count, doubtful and count == SECTIONS[-1])
        found, doubtful = Interval(value, half, count, True), True
    return found


def of_independent(first: Interval, second: Interval, confidence: float = 0.95) -> Interval:
    """second - first of unrelated runs: the errors add; degrees of freedom of the poorer of the two."""
    value = second.value - first.value
    if first.half is None or second.half is None:
        return Interval(value, None, min(first.parts, second.parts))
    errors = [each.half / t_quantile(each.parts - 1, confidence) for each in (first, second) if each.half is not None]
    parts = min(first.parts, second.parts)
    half = t_quantile(parts - 1, confidence) * sqrt(sum(error**2 for error in errors))
    return Interval(value, half, parts, first.correlated or second.correlated)


def longer_side(values: np.ndarray, t: float) -> float:
    """How many standard errors the longer side of an interval takes that allows for the skewness of its sections.

    The mean of few skewed values is not t distributed: where a few stretches of congestion make the figure, a run without
    them looks both better and surer than it is. Willink's interval (A confidence interval and test for the mean of an
    asymmetric distribution, Communications in Statistics 34, 2005; the adjustment of Skart, Tafazzoli and Wilson, IIE
    Transactions 43, 2011) reaches -G(t) to one side and -G(-t) to the other, with a = skewness / (6 sqrt(n)) and
    G(r) = (cbrt(1 + 6 a (r - a)) - 1) / (2 a); of values that are not skewed both are t. The longer side counts for both.
    """
    size = len(values)
    centred = values - values.mean()
    variance = float((centred**2).sum()) / (size - 1)
    if variance == 0:
        return t
    skewness = float((centred**3).sum()) * size / ((size - 1) * (size - 2)) / variance**1.5
    a = skewness / (6 * sqrt(size))
    if abs(a) < 1e-6:
        return t
    return max(abs((float(np.cbrt(1 + 6 * a * (r - a))) - 1) / (2 * a)) for r in (t, -t))


def _correlated(values: np.ndarray) -> bool:
    """Whether successive values are nearer to each other than chance would have it.

    von Neumann's ratio of independent normal values has mean 2 and variance 4 (n - 2) / (n^2 - 1); below it by 1.645 of
    these, they are correlated (Fishman, Grouping observations in digital simulation, Management Science 24, 1978).
    """
    size = len(values)
    spread = float(((values - values.mean()) ** 2).sum())
    if spread == 0:
        return False
    ratio = float((np.diff(values) ** 2).sum()) / spread * size / (size - 1)
    return ratio < 2 * size / (size - 1) - 1.645 * 2 * sqrt((size - 2) / (size**2 - 1))
