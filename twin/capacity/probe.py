"""A rate that was tried: what several seeds say together."""

from dataclasses import dataclass
from math import inf, isfinite
from statistics import fmean

from twin.capacity.objectives import Sample
from twin.cli.intervals import mean_and_half_width

SURELY_MET, BY_THE_MEAN, SURELY_MISSED = 1, 0, -1  # which end of the intervals is held against the limits
GROWS_IN = {SURELY_MET: 0.2, BY_THE_MEAN: 0.5, SURELY_MISSED: 0.79}  # share of the seeds, above which a rate is missed


@dataclass(frozen=True)
class Probe:
    """Simulations at one rate, a seed each.

    Ratios are value over limit. `upper` and `lower` are the ends of their two-sided confidence intervals (Student's t over
    the seeds); with one seed there is none, and both are the mean.
    """

    rate: float  # requests/s
    samples: tuple[Sample, ...]
    confidence: float = 0.95
    steady: bool = True  # whether a queue that grows is a reason to fail

    def interval(self, name: str) -> tuple[float, float]:
        """Mean of an objective's ratio, and how far its interval reaches to either side."""
        return self._over_seeds([sample.ratios[name] for sample in self.samples])

    def value(self, name: str) -> tuple[float, float]:
        """The same of the value itself, seconds or a share."""
        return self._over_seeds([sample.values[name] for sample in self.samples])

    def _over_seeds(self, values: list[float]) -> tuple[float, float]:
        if not all(map(isfinite, values)):
            return inf, 0.0
        if len(values) < 2:
            return values[0], 0.0
        return mean_and_half_width(values, self.confidence)

    def level(self, side: int = BY_THE_MEAN) -> float:
        """The greatest ratio of all objectives: of the means, or of an end of their intervals."""
        return max(mean + side * half for mean, half in map(self.interval, self.samples[0].ratios))

    @property
    def alike(self) -> bool:
        """Whether several seeds gave the very same figures: the trace leaves nothing to chance, a recorded one say."""
        found = [(dict(sample.values), sample.throughput) for sample in self.samples]
        return len(found) > 1 and all(each == found[0] for each in found)

    @property
    def worst(self) -> str:
        """The objective that is nearest to its limit, or furthest beyond it."""
        return max(self.samples[0].ratios, key=lambda name: self.interval(name)[0])

    @property
    def saturated(self) -> float:
        """The share of seeds in which the queue grew for as long as requests came."""
        return fmean(sample.saturated for sample in self.samples)

    def grows(self, side: int = BY_THE_MEAN) -> bool:
        """Whether the rate is above the capacity because of its queue: it grows in more than `GROWS_IN` of the seeds."""
        return self.steady and self.saturated > GROWS_IN[side]

    def met(self, side: int = BY_THE_MEAN) -> bool:
        """Whether the rate meets all objectives: by the means, surely (`SURELY_MET`), or not surely missed."""
        return not self.grows(side) and self.level(side) <= 1.0

    def why_not(self) -> str:
        """What keeps the rate from meeting the objectives, in words."""
        return "the queue grows" if self.grows() and self.level() <= 1.0 else self.worst

    @property
    def throughput(self) -> float | None:
        """Requests/s that were finished, the mean over the seeds."""
        known = [sample.throughput for sample in self.samples if sample.throughput is not None]
        return fmean(known) if known else None
