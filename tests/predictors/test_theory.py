"""Shortest predicted job first under exponential predictions: M. Mitzenmacher, "Scheduling with predictions and the price
of misprediction" (ITCS 2020), the nonpreemptive law of its section 3.

With service times X exponential of mean 1 and predictions Y exponential of mean X, the density of Y is 2 K0(2 sqrt y), the
load of those predicted at most y is rate (1 - 2 y K2(2 sqrt y)), and the mean time in an M/M/1 system is
1 + integral of rate f(y) / (1 - load(y))^2 dy, K0 and K2 the modified Bessel functions.
"""

from math import inf, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import kn

from tests.theory.intervals import batch_means
from traces import open_trace
from twin.core.limits import Limits
from twin.latency.linear import LinearLatency
from twin.policy import Policy
from twin.predictor import Predictor
from twin.predictors.noisy import Noisy
from twin.predictors.oracle import Oracle
from twin.sim.simulation import Setup, simulate

TOKENS, COUNT = 100, 15_000


class ShortestPredicted(Policy):
    """Shortest predicted first, to the end."""

    needs_prediction = True

    def order(self, request, view):
        return request.predicted_output


def mean_of_predicted(rate: float) -> float:
    def waits(y: float) -> float:
        root = 2 * sqrt(y)
        return rate * 2 * kn(0, root) / (1 - rate * (1 - 2 * y * kn(2, root))) ** 2

    return 1 + quad(waits, 0, 1)[0] + quad(waits, 1, inf)[0]


def mean_of_true(rate: float) -> float:
    """The same with Y = X (Phipps, 1956): the load of the jobs up to x is rate (1 - (1 + x) exp(-x))."""
    return 1 + quad(lambda x: rate * np.exp(-x) / (1 - rate * (1 - (1 + x) * np.exp(-x))) ** 2, 0, inf)[0]


@pytest.mark.parametrize(("predictor", "law"), [(Noisy("exponential"), mean_of_predicted), (Oracle(), mean_of_true)])
def test_the_mean_time_in_system_is_that_of_the_law(predictor: Predictor, law):
    rate = 0.5
    options = {"arrivals": f"poisson({rate})", "prompt_tokens": "constant(1)", "output_tokens": f"exponential({TOKENS})"}
    trace = open_trace(name="synthetic", num_requests=COUNT, seed=3, **options)
    service_s = 1 / float(np.mean(trace.output_tokens))  # a step, so that the mean service is one second
    setup = Setup(
        Limits(num_blocks=10_000, max_num_seqs=1, max_num_batched_tokens=8192),
        ShortestPredicted(), LinearLatency(base_s=service_s), predictor=predictor,
    )  # fmt: skip
    requests = simulate(setup, trace).requests
    mean, half = batch_means(requests["finish_s"] - requests["arrival_s"], 2000)
    assert half < 0.05 * mean
    assert mean == pytest.approx(law(rate), abs=half)
