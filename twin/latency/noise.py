"""Steps that scatter about what a model says of them, as measured steps do."""

import math
from statistics import NormalDist

from twin.core.batch import Features
from twin.keyed_draws import stream, uniform
from twin.latency.model import LatencyModel, checked

STANDARD = NormalDist()


class NoisyLatency(LatencyModel):
    """step n takes what `model` says times exp(s z_n - s^2 / 2), z_n standard normal, s^2 = ln(1 + spread^2).

    The factor is lognormal with mean 1 and relative standard deviation `spread`, so the mean duration stays the model's.
    z_n is drawn by (seed, n) and by nothing else: n is the number of the step in the run, from 1, whatever it consists of.
    The model has a position and belongs to one run.
    """

    def __init__(self, model: LatencyModel, spread: float, seed: int) -> None:
        self.model, self.name, self.spread = model, model.name, spread
        self.launched = 0
        self._stream = stream(seed, "step noise")
        self._variance = math.log1p(spread * spread)
        self._sigma = math.sqrt(self._variance)

    def step_s(self, features: Features) -> float:
        self.launched += 1
        return checked(self.model.step_s(features) * self.factor(self.launched), self.name, features)

    def stretch(self, start_s: float, sequences: int, context_tokens: int, steps: int, until_s: float) -> list[float]:
        decode_step_s, factor, launched = self.model.decode_step_s, self.factor, self.launched
        ends: list[float] = []
        now, context = start_s, context_tokens
        for number in range(launched + 1, launched + steps + 1):
            now += decode_step_s(sequences, context) * factor(number)
            ends.append(now)
            context += sequences
            if now >= until_s:
                break
        self.launched += len(ends)
        return ends

    def take_back(self, steps: int) -> None:
        self.launched -= steps

    def expected(self) -> LatencyModel:
        return self.model

    def factor(self, number: int) -> float:
        """What the duration of the run's step `number` is multiplied with."""
        z = STANDARD.inv_cdf(uniform(self._stream, str(number)))
        return math.exp(self._sigma * z - self._variance / 2)

    def describe(self) -> dict:
        return {**self.model.describe(), "noise": True}

    def ranges(self) -> dict[str, tuple[float, float]]:
        return self.model.ranges()
