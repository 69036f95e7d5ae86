"""Distributions of whole numbers: prompt and output lengths in tokens, priorities, numbers of users.

Each is sampled by inversion from the uniforms of a `Stream`, so that request i's value depends on i alone.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from traces.choices import check_pairs, pick
from traces.expressions import Pair, build
from traces.streams import Stream

MOST = 1_000_000_000  # tokens; longer draws of the unbounded distributions are cut here


def whole(name: str, value: float) -> int:
    """An integer, or ValueError."""
    if not (isinstance(value, int) or (math.isfinite(value) and value == int(value))):
        raise ValueError(f"{name} is {value}, must be an integer")
    if abs(value) > MOST:
        raise ValueError(f"{name} is {value}, must be at most {MOST:,}")
    return int(value)


def positive(name: str, value: float) -> None:
    """ValueError unless 0 < value < infinity."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} is {value}, must be more than 0")


def counts(values: np.ndarray) -> np.ndarray:
    """As integers of at least 1 and at most MOST."""
    return np.clip(values, 1, MOST).astype(np.int64)


class Distribution:
    """What every distribution here answers."""

    FORM: ClassVar[str]

    def least(self) -> int:
        """The smallest value it can give."""
        return 1

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        """One value for each entry of `index`: int64."""
        raise NotImplementedError


@dataclass(frozen=True)
class Constant(Distribution):
    """Always `value`."""

    value: int
    FORM = "constant(200)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", whole("value", self.value))

    def least(self) -> int:
        return self.value

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        return np.full(len(index), self.value, np.int64)


@dataclass(frozen=True)
class Uniform(Distribution):
    """Every integer from `low` to `high`, both included, is equally likely."""

    low: int
    high: int
    FORM = "uniform(1,19)"

    def __post_init__(self) -> None:
        if whole("low", self.low) > whole("high", self.high):
            raise ValueError(f"low is {self.low}, must not be above high, {self.high}")

    def least(self) -> int:
        return int(self.low)

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        width = int(self.high) - int(self.low) + 1
        return int(self.low) + np.floor(stream.uniforms(index) * width).astype(np.int64)


@dataclass(frozen=True)
class Geometric(Distribution):
    """P(k) = p (1 - p)^(k - 1) for k = 1, 2, ...: mean 1 / p = `mean`."""

    mean: float
    FORM = "geometric(200)"

    def __post_init__(self) -> None:
        positive("mean", self.mean)
        if self.mean < 1:
            raise ValueError(f"mean is {self.mean}, must be at least 1, the smallest value")

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        if self.mean == 1:
            return np.ones(len(index), np.int64)
        return counts(np.ceil(np.log(stream.uniforms(index)) / math.log1p(-1 / self.mean)))


@dataclass(frozen=True)
class Exponential(Distribution):
    """An exponential variate of mean `mean`, rounded up: 1, 2, ...; its own mean is 1 / (1 - exp(-1 / mean)),
    about mean + 1/2."""

    mean: float
    FORM = "exponential(200)"

    def __post_init__(self) -> None:
        positive("mean", self.mean)

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        return counts(np.ceil(self.mean * stream.exponentials(index)))


@dataclass(frozen=True)
class LogNormal(Distribution):
    """exp of a normal of mean log(`median`) and standard deviation `sigma`, rounded to the nearest, at least 1."""

    median: float
    sigma: float
    FORM = "lognormal(median=,sigma=)"

    def __post_init__(self) -> None:
        positive("median", self.median)
        if not 0 <= self.sigma < math.inf:
            raise ValueError(f"sigma is {self.sigma}, must not be negative")

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        exponent = np.minimum(math.log(self.median) + self.sigma * stream.normals(index), math.log(MOST))
        return counts(np.rint(np.exp(exponent)))


@dataclass(frozen=True)
class Choice(Distribution):
    """One of some values, each with its probability; the probabilities sum to 1 (to 1e-6)."""

    pairs: tuple[Pair, ...]
    FORM = "choice(a:p,b:q)"

    def __post_init__(self) -> None:
        check_pairs(self.pairs, whole)

    def least(self) -> int:
        return int(min(pair.value for pair in self.pairs))

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        return pick(self.pairs, stream.uniforms(index), np.int64)


@dataclass(frozen=True)
class Zipf(Distribution):
    """k = 1, ..., `n` with probability proportional to k^-`exponent`: a few values take most of all draws."""

    exponent: float
    n: int
    FORM = "zipf(1.1,n=27)"

    def __post_init__(self) -> None:
        if not 0 <= self.exponent < math.inf:
            raise ValueError(f"exponent is {self.exponent}, must not be negative")
        if not 1 <= whole("n", self.n) <= 10_000_000:
            raise ValueError(f"n is {self.n}, must be from 1 to 10,000,000")

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        bounds = np.cumsum(np.arange(1, int(self.n) + 1, dtype=np.float64) ** -self.exponent)
        return 1 + np.searchsorted(bounds[:-1] / bounds[-1], stream.uniforms(index), side="right").astype(np.int64)


DISTRIBUTIONS: dict[str, type[Distribution]] = {
    "constant": Constant,
    "uniform": Uniform,
    "geometric": Geometric,
    "exponential": Exponential,
    "lognormal": LogNormal,
    "choice": Choice,
    "zipf": Zipf,
}


def distribution(text: object, option: str, least: int | None = 1) -> Distribution:
    """The distribution that an option's text describes, e.g. `uniform(1,19)`; a bare number is a constant.

    Raises ValueError with one line if the text is wrong or the distribution can give a value below `least`.
    """
    parsed = build(text, option, DISTRIBUTIONS)
    if least is not None and parsed.least() < least:
        raise ValueError(f"{option}={text}: can be {parsed.least()}, must be at least {least}")
    return parsed
