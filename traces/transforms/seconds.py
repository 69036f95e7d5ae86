"""Distributions of times in seconds, by inversion from the uniforms of a `Stream`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from traces.choices import check_pairs, pick
from traces.distributions import positive
from traces.expressions import Pair, build
from traces.streams import Stream


class Seconds:
    """What every distribution here answers."""

    FORM: ClassVar[str]

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        """One time in seconds for each entry of `index`: float64, at least 0."""
        raise NotImplementedError


@dataclass(frozen=True)
class Constant(Seconds):
    """Always `value`."""

    value: float
    FORM = "constant(2.5)"

    def __post_init__(self) -> None:
        not_negative("value", self.value)

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        return np.full(len(index), float(self.value))


@dataclass(frozen=True)
class Uniform(Seconds):
    """Between `low` and `high`."""

    low: float
    high: float
    FORM = "uniform(1,10)"

    def __post_init__(self) -> None:
        not_negative("low", self.low)
        not_negative("high", self.high)
        if self.low > self.high:
            raise ValueError(f"low is {self.low}, must not be above high, {self.high}")

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        return self.low + (self.high - self.low) * stream.uniforms(index)


@dataclass(frozen=True)
class Exponential(Seconds):
    """Exponential of mean `mean`."""

    mean: float
    FORM = "exponential(5)"

    def __post_init__(self) -> None:
        positive("mean", self.mean)

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        return self.mean * stream.exponentials(index)


@dataclass(frozen=True)
class LogNormal(Seconds):
    """exp of a normal of mean log(`median`) and standard deviation `sigma`."""

    median: float
    sigma: float
    FORM = "lognormal(median=,sigma=)"

    def __post_init__(self) -> None:
        positive("median", self.median)
        if not 0 <= self.sigma <= 10:
            raise ValueError(f"sigma is {self.sigma}, must be from 0 to 10")

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        return self.median * np.exp(self.sigma * stream.normals(index))


@dataclass(frozen=True)
class Choice(Seconds):
    """One of some times, each with its probability; the probabilities sum to 1 (to 1e-6)."""

    pairs: tuple[Pair, ...]
    FORM = "choice(a:p,b:q)"

    def __post_init__(self) -> None:
        check_pairs(self.pairs, not_negative)

    def sample(self, stream: Stream, index: np.ndarray) -> np.ndarray:
        return pick(self.pairs, stream.uniforms(index), np.float64)


SECONDS: dict[str, type[Seconds]] = {
    "constant": Constant,
    "uniform": Uniform,
    "exponential": Exponential,
    "lognormal": LogNormal,
    "choice": Choice,
}


def not_negative(name: str, value: float) -> None:
    """ValueError unless 0 <= value < infinity."""
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value}, must be at least 0 s")


def seconds(text: object, option: str) -> Seconds:
    """The distribution that an option's text describes, e.g. `uniform(1,10)`; a bare number is a constant."""
    return build(text, option, SECONDS)
