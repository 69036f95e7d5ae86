"""The true length with an error of known size."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from math import erfc, exp, log, pi, sin, sqrt
from statistics import NormalDist
from typing import Literal

from twin.predictor import Predictor

SIGMA, TAU = 0.5, 0.5  # the defaults
normal_of = NormalDist().inv_cdf


class Noisy(Predictor):
    """The true length with an error of known size: lognormal, exponential, or in the rank alone.

    lognormal: length * exp(sigma * Z), Z standard normal: half of the predictions are too short, half too long, and
    sigma is the standard deviation of their logarithm.

    exponential: exponentially distributed with the true length as mean, the model of M. Mitzenmacher, "Scheduling with
    predictions and the price of misprediction" (ITCS 2020).

    rank: a length of the trace whose rank among all has Kendall correlation tau with the true one, as predictors that
    learn to rank are judged (Fu et al., "Efficient LLM scheduling by learning to rank", NeurIPS 2024). Ranks are joined
    by a Gaussian copula: with z and e standard normal, z' = rho * z + sqrt(1 - rho^2) * e, and rho = sin(pi * tau / 2)
    (W. Kruskal, "Ordinal measures of association", JASA 1958). Equal lengths have their ranks drawn.
    """

    needs_length = True

    def __init__(
        self,
        kind: Literal["lognormal", "exponential", "rank"] = "lognormal",
        sigma: float = SIGMA,
        tau: float = TAU,
    ) -> None:
        """Parameters:

        kind: the error's kind.
        sigma: of lognormal: the standard deviation of log(predicted / true); 0 is an oracle.
        tau: of rank: Kendall's tau, from -1 (the reverse) over 0 (no relation) to 1 (an oracle).
        """
        if not 0 <= sigma <= 10:
            raise ValueError(f"sigma must be from 0 to 10, not {sigma:g}")
        if not -1 <= tau <= 1:
            raise ValueError(f"tau must be from -1 to 1, not {tau:g}")
        if kind != "lognormal" and sigma != SIGMA:
            raise ValueError(f"sigma={sigma:g} belongs to kind=lognormal, and kind is {kind}")
        if kind != "rank" and tau != TAU:
            raise ValueError(f"tau={tau:g} belongs to kind=rank, and kind is {kind}")
        self.sigma, self.correlation = sigma, sin(pi * tau / 2)
        self.rest = sqrt(max(0.0, 1 - self.correlation**2))
        self.lengths: list[int] = []  # of the trace, sorted
        self.places: dict[int, tuple[int, int]] = {}  # of each length: how many are shorter, and how many equal
        self.drawn = ("error", "rank among equals") if kind == "rank" else ("error",)  # what for
        self.with_error: Callable[..., float] = getattr(self, f"_{kind}")

    def prepare(self, output_tokens):
        self.lengths, places = sorted(output_tokens), Counter(output_tokens)
        firsts = accumulate((places[length] for length in sorted(places)), initial=0)
        self.places = {length: (first, places[length]) for length, first in zip(sorted(places), firsts, strict=False)}

    def predict(self, request, output_tokens):
        return self.with_error(output_tokens, *(self.uniform(request.id, purpose) for purpose in self.drawn))

    def predict_all(self, request_ids, output_tokens):
        return list(map(self.with_error, output_tokens, *(self.uniforms(request_ids, purpose) for purpose in self.drawn)))

    def _lognormal(self, length, error):
        return length * exp(self.sigma * normal_of(error))

    def _exponential(self, length, error):
        return -length * log(error)

    def _rank(self, length, error, among_equals):
        lengths, count = self.lengths, len(self.lengths)
        first, equal = self.places.get(length) or (min(bisect_left(lengths, length), count - 1), 1)
        rank = (first + equal * among_equals) / count
        shifted = self.correlation * normal_of(rank) + self.rest * normal_of(error)
        return lengths[min(int(count * 0.5 * erfc(-shifted / sqrt(2))), count - 1)]
