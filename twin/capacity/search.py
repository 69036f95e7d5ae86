"""Bracketing and bisection on the arrival rate."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt

from twin.capacity.probe import BY_THE_MEAN, SURELY_MET, SURELY_MISSED, Probe

FOUND, NONE, ALL, UNFINISHED = "found", "none", "all", "unfinished"
FACTOR = 2.0  # between rates while the capacity is not bracketed
FALLS = 0.99  # a level that shrinks less than to this when the rate is divided by FACTOR twice falls no further


class OutOfTime(Exception):
    """The search was given so much time and no more."""


@dataclass(frozen=True)
class Bounds:
    """Where a search looks, and how long."""

    start: float  # requests/s
    least: float
    most: float
    tolerance: float = 0.02
    max_probes: int = 60


@dataclass(frozen=True)
class Answer:
    """What a search found.

    `rate` is the greatest that was tried and met every objective by the means over the seeds, and some rate at most
    `1 + tolerance` times as great did not. `low` and `high` enclose the capacity at the probes' confidence: `low` is the
    greatest rate that was surely met, `high` the least that was surely missed; None: not known.
    """

    outcome: str  # FOUND; NONE: the least rate does not meet them; ALL: the greatest one still does; UNFINISHED
    rate: float | None
    low: float | None
    high: float | None
    at: Probe | None  # the probe at `rate`
    beyond: Probe | None  # the least rate that missed
    probes: tuple[Probe, ...]  # by rate

    @property
    def monotone(self) -> bool:
        """Whether no rate was met above one that was missed."""
        verdicts = [probe.met() for probe in self.probes]
        return verdicts == sorted(verdicts, reverse=True)


@dataclass
class Search:
    """Looks for the greatest rate that meets the objectives. What was measured stays in `probes` however `run` ends.

    The same seeds serve at every rate (common random numbers), so that a rate is compared with another on the same
    requests. Three roots are bracketed by factors of two and bisected in turn: of the means, and of both ends of their
    confidence intervals. The last two are the interval of the capacity: were it outside, an interval of an objective would
    have missed the objective's true mean (the test is inverted; no shape of the curve is assumed but that it rises).
    """

    measure: Callable[[float], Probe]
    bounds: Bounds
    probes: dict[float, Probe] = field(default_factory=dict)
    spent: bool = False  # max_probes were

    def run(self) -> Answer:
        """All three roots; the interval's ends are looked for only where there is a capacity and more than one seed."""
        self._close_in(BY_THE_MEAN)
        answer = self.answer()
        if answer.at is not None and len(answer.at.samples) > 1:
            for side in (SURELY_MET, SURELY_MISSED):
                self._close_in(side)
        return self.answer()

    def answer(self) -> Answer:
        """What the probes so far say."""
        met, missed = self._around(BY_THE_MEAN)
        probes = tuple(self.probes[rate] for rate in sorted(self.probes))
        low = high = None
        if probes and len(probes[0].samples) > 1:
            low, high = self._around(SURELY_MET)[0], self._around(SURELY_MISSED)[1]
        at, beyond = (None if rate is None else self.probes[rate] for rate in (met, missed))
        return Answer(self._outcome(met, missed), met, low, high, at, beyond, probes)

    def _outcome(self, met: float | None, missed: float | None) -> str:
        bounds = self.bounds
        if met is not None and missed is not None:
            return FOUND if missed <= met * (1 + bounds.tolerance) else UNFINISHED
        if met is None and missed is not None and (missed <= bounds.least or self._no_longer_falls(BY_THE_MEAN)):
            return NONE
        return ALL if met is not None and met >= bounds.most else UNFINISHED

    def _close_in(self, side: int) -> None:
        """Brackets and bisects; returns early where the bounds end, or the probes."""
        while not self.spent:
            met, missed = self._around(side)
            following = self._next(side, met, missed)
            if following is None:
                return
            if len(self.probes) >= self.bounds.max_probes:
                self.spent = True
                return
            self.probes[following] = self.measure(following)

    def _next(self, side: int, met: float | None, missed: float | None) -> float | None:
        """The rate to try next; None: there is nothing more to learn."""
        bounds = self.bounds
        if met is None and missed is None:
            return min(max(bounds.start, bounds.least), bounds.most)
        if missed is None:
            assert met is not None
            return None if met >= bounds.most else min(met * FACTOR, bounds.most)
        if met is None:
            if missed <= bounds.least or self._no_longer_falls(side):
                return None
            return max(missed / FACTOR, bounds.least)
        return None if missed <= met * (1 + bounds.tolerance) else sqrt(met * missed)

    def _around(self, side: int) -> tuple[float | None, float | None]:
        """The least rate that was missed, and the greatest below it that was met."""
        missed = min((rate for rate, probe in self.probes.items() if not probe.met(side)), default=None)
        below = [rate for rate, probe in self.probes.items() if probe.met(side) and (missed is None or rate < missed)]
        return max(below, default=None), missed

    def _no_longer_falls(self, side: int) -> bool:
        """Whether lower rates are no better: the requests no longer meet each other."""
        lowest = [self.probes[rate] for rate in sorted(self.probes)[:3]]
        if len(lowest) < 3 or any(probe.grows(side) or probe.met(side) for probe in lowest):
            return False
        return lowest[0].level(side) >= FALLS * lowest[2].level(side)
