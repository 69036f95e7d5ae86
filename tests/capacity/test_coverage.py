"""How often the 95 % interval holds the true capacity: that of M/D/1, 2/3 for a mean wait of 1 s, by Lindley's recursion."""

import numpy as np

from twin.capacity.objectives import Sample
from twin.capacity.probe import Probe
from twin.capacity.search import Answer, Bounds, Search

SEEDS, REQUESTS, WARMUP = 5, 400, 40


def wait_s(gaps: np.ndarray, rate: float) -> float:
    """The mean wait of W(n + 1) = max(0, W(n) + 1 - gap / rate), service of one second (Lindley, 1952)."""
    walk = np.concatenate([[0.0], np.cumsum(1 - gaps / rate)])
    return float((walk - np.minimum.accumulate(walk))[WARMUP:].mean())


def searched(number: int) -> Answer:
    gaps = [np.random.default_rng([number, seed]).exponential(size=REQUESTS - 1) for seed in range(SEEDS)]

    def measure(rate: float) -> Probe:
        waits = [{"wait": wait_s(each, rate)} for each in gaps]  # of the limit too, which is 1 s
        return Probe(rate, tuple(Sample(seed, wait, wait, False) for seed, wait in enumerate(waits)))

    return Search(measure, Bounds(start=0.5, least=0.001, most=64, tolerance=0.02)).run()


def test_the_interval_holds_the_true_capacity_as_often_as_it_says():
    answers = [searched(number) for number in range(100)]
    held = sum(answer.low <= 2 / 3 <= answer.high for answer in answers if answer.low and answer.high)
    assert (
        0.88 <= held / len(answers) <= 0.99
    )  # 95 %, give or take 2.2 of 100 trials; short runs' means are not quite normal
    rates = [answer.rate for answer in answers if answer.rate]
    assert abs(np.mean(rates) - 2 / 3) < 0.01
