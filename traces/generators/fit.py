"""The fitted figures behind the generators: quantiles, moments and parameters of public traces, none of their rows.

`fits/NAME.json` holds those of the generator NAME and the source it was fitted to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from traces.streams import Stream

FARTHEST = 4.0  # standard deviations: where a normal reaches the levels 0 and 1


@cache
def figures(name: str) -> dict[str, Any]:
    """The figures of the generator `name`."""
    return json.loads(Path(__file__).with_name("fits").joinpath(f"{name}.json").read_text(encoding="utf-8"))


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A distribution by inversion: `values` at `levels` from 0 to 1, linear between them."""

    levels: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, levels: Sequence[float], values: Sequence[float] | np.ndarray) -> Quantiles:
        """From lists as the files of figures hold them."""
        return cls(np.array(levels, np.float64), np.array(values, np.float64))

    def at(self, level: np.ndarray) -> np.ndarray:
        """The values at these levels, floats."""
        return np.interp(level, self.levels, self.values)

    def at_normal(self, normal: np.ndarray) -> np.ndarray:
        """The values at the levels that these standard normals stand for, linear in the normal between the levels."""
        inner = [NormalDist().inv_cdf(level) for level in self.levels[1:-1]]
        return np.interp(normal, [-FARTHEST, *inner, FARTHEST], self.values)

    def tokens(self, level: np.ndarray) -> np.ndarray:
        """The values at these levels as whole tokens, at least 1: int64."""
        return np.maximum(np.rint(self.at(level)), 1).astype(np.int64)

    def mean(self) -> float:
        """The expected value of `at`."""
        return float(np.diff(self.levels) @ (self.values[1:] + self.values[:-1]) / 2)


@dataclass(frozen=True, eq=False)
class Lengths:
    """Prompt and output lengths in tokens.

    The prompt comes by inversion of its quantiles, the output by inversion of those of its part of the prompts (the
    parts, e.g. sixteenths, are equally likely; the first holds the shortest prompts), because outputs depend on prompts
    in a way that no correlation describes: with a Gaussian copula the total length of `chat` misses the source's by a
    Kolmogorov-Smirnov distance of 0.20, with sixteen parts by 0.03.
    """

    prompt: Quantiles
    output: tuple[Quantiles, ...]

    @classmethod
    def of(cls, fitted: Mapping[str, Any]) -> Lengths:
        """From the entry `lengths` of a file of figures."""
        prompt, output = fitted["prompt"], fitted["output"]
        parts = tuple(Quantiles.of(output["levels"], tokens) for tokens in output["tokens"])
        return cls(Quantiles.of(prompt["levels"], prompt["tokens"]), parts)

    def sample(self, seed: int, name: str, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Prompt and output tokens of the requests `index` of the generator `name`."""
        prompt_level = Stream(seed, f"{name}/prompt").uniforms(index)
        output_level = Stream(seed, f"{name}/output").uniforms(index)
        part = np.floor(prompt_level * len(self.output)).astype(np.int64)
        output_tokens = np.empty(len(index), np.int64)
        for number, quantiles in enumerate(self.output):
            chosen = part == number
            output_tokens[chosen] = quantiles.tokens(output_level[chosen])
        return self.prompt.tokens(prompt_level), output_tokens
