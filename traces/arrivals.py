"""When requests arrive: renewal processes, bursts, closed loops. All start with the first arrival, at 0 s."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from traces.distributions import positive, whole
from traces.expressions import build
from traces.streams import Stream
from traces.trace import ClosedLoop


class Arrivals:
    """What every arrival process here answers."""

    FORM: ClassVar[str]

    def times(self, stream: Stream, count: int) -> np.ndarray:
        """The arrival times of the first `count` requests in seconds, ascending, the first 0 (nan: not yet known)."""
        raise NotImplementedError

    def closed(self) -> ClosedLoop | None:
        """The loop, if arrivals depend on when requests end."""
        return None


def running_sum(gaps: np.ndarray) -> np.ndarray:
    """Arrival i is the sum of the gaps 1 to i: a longer trace begins with the same times."""
    gaps[0] = 0
    return np.cumsum(gaps)


@dataclass(frozen=True)
class Poisson(Arrivals):
    """Independent exponential gaps of mean 1 / `rate`; requests/s."""

    rate: float
    FORM = "poisson(8)"

    def __post_init__(self) -> None:
        positive("rate", self.rate)

    def times(self, stream: Stream, count: int) -> np.ndarray:
        return running_sum(stream.exponentials(np.arange(count)) / self.rate)


@dataclass(frozen=True)
class Gamma(Arrivals):
    """Independent gamma gaps of mean 1 / `rate` and coefficient of variation `cv` = 1 / sqrt(shape).

    `cv` or `shape` (what vLLM's benchmark calls burstiness) is given. cv = 1 is Poisson, cv = 0 (shape = inf) even.
    """

    rate: float
    cv: float = math.nan
    shape: float = math.nan
    FORM = "gamma(8,cv=2)"

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        if math.isnan(self.cv) == math.isnan(self.shape):
            raise ValueError("gamma needs cv or shape, and not both")
        if self.cv < 0 or math.isinf(self.cv):
            raise ValueError(f"cv is {self.cv}, must not be negative")
        if self.shape <= 0:
            raise ValueError(f"shape is {self.shape}, must be more than 0")
        if not 0.001 <= self.resolved_shape():
            raise ValueError("cv above 31.6 (shape below 0.001) leaves almost all gaps at 0")

    def resolved_shape(self) -> float:
        """shape = 1 / cv^2."""
        if math.isnan(self.cv):
            return self.shape
        return 1 / self.cv**2 if self.cv > 1e-6 else math.inf

    def times(self, stream: Stream, count: int) -> np.ndarray:
        shape = self.resolved_shape()
        if math.isinf(shape):
            return Constant(self.rate).times(stream, count)
        return running_sum(stream.gammas(np.arange(count), shape) / (shape * self.rate))


@dataclass(frozen=True)
class Constant(Arrivals):
    """Request i arrives at i / `rate`."""

    rate: float
    FORM = "constant(8)"

    def __post_init__(self) -> None:
        positive("rate", self.rate)

    def times(self, stream: Stream, count: int) -> np.ndarray:
        return np.arange(count) / self.rate


@dataclass(frozen=True)
class Closed(Arrivals):
    """`users` requests arrive at 0; each that ends is followed by the next after `think` seconds."""

    users: int
    think: float = 0.0
    FORM = "closed(64,think=0)"

    def __post_init__(self) -> None:
        if whole("users", self.users) < 1:
            raise ValueError(f"users is {self.users}, must be at least 1")
        if not 0 <= self.think < math.inf:
            raise ValueError(f"think is {self.think}, must not be negative")

    def times(self, stream: Stream, count: int) -> np.ndarray:
        times = np.full(count, math.nan)
        times[: int(self.users)] = 0.0
        return times

    def closed(self) -> ClosedLoop:
        return ClosedLoop(int(self.users), float(self.think))


@dataclass(frozen=True)
class Burst(Arrivals):
    """All requests at once, or `size` of them `every` so many seconds."""

    size: int | None = None
    every: float | None = None
    FORM = "burst() or burst(size=,every=)"

    def __post_init__(self) -> None:
        if (self.size is None) != (self.every is None):
            raise ValueError("burst needs both size and every, or neither")
        if self.size is not None and whole("size", self.size) < 1:
            raise ValueError(f"size is {self.size}, must be at least 1")
        if self.every is not None:
            positive("every", self.every)

    def times(self, stream: Stream, count: int) -> np.ndarray:
        if self.size is None or self.every is None:
            return np.zeros(count)
        return np.arange(count) // int(self.size) * float(self.every)


ARRIVALS: dict[str, type[Arrivals]] = {
    "poisson": Poisson,
    "gamma": Gamma,
    "constant": Constant,
    "closed": Closed,
    "burst": Burst,
}


def arrivals(text: object, option: str = "trace.arrivals") -> Arrivals:
    """The process that an option's text describes, e.g. `gamma(8,cv=2)`; raises ValueError with one line."""
    return build(text, option, ARRIVALS)
