"""Queueing laws of the scheduling policies (docs/theory.md), from the command line.

Two steps a law, as in `test_laws.py`: the run equals a server written apart (`one_server.py`, `reference.py`) request for
request, and the mean of that server's requests, many more of them, is the closed form (`closed_forms.py`) within an interval
narrower than 3 %, for a seed that is no unlucky one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.theory import closed_forms
from tests.theory.commands import run
from tests.theory.intervals import batch_means
from tests.theory.one_server import feedback_queues, least_attained, most_urgent, preemptive, round_robin, shortest_remaining
from tests.theory.reference import serve
from tests.theory.test_laws import assert_law, generated
from traces import Trace
from twin.predictors.noisy import Noisy

MEMORYLESS = closed_forms.geometric(100, 3000)  # steps of 10 ms
COARSE = closed_forms.geometric(20, 600)  # of 50 ms
MANY_SHORT = closed_forms.choice({10: 0.9, 110: 0.1})  # of 50 ms, E[S] = 1 s

Server = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def longer(config: dict[str, Any], num_requests: int, server: Server) -> tuple[Trace, np.ndarray]:
    """So many requests of the run's kind, and how long each stays in the server."""
    trace = generated(config, num_requests)
    return trace, server(trace.arrival_s, trace.output_tokens, config["latency"]["base_s"]) - trace.arrival_s


def run_of(case: str, folder: Path, server: Server, *further: str, num_requests: int) -> dict[str, Any]:
    """A run of the case's command, equal to the server request for request; its configuration."""
    done = run(case, folder, *further, num_requests=num_requests)
    _, stay_s = longer(done.config, num_requests, server)
    np.testing.assert_allclose(done.requests["e2e_s"], stay_s, rtol=0, atol=1e-6)
    return done.config


def in_order(key: np.ndarray | None = None) -> Server:
    """Without preemption, the smallest key first; None: the request's own length."""

    def server(arrival_s: np.ndarray, tokens: np.ndarray, step_s: float) -> np.ndarray:
        return serve(arrival_s, tokens, step_s, seats=1, priority=tokens if key is None else key)[1]

    return server


def test_th_sjf_shortest_job_first(tmp_path: Path):
    config = run_of("th-sjf", tmp_path, in_order(), num_requests=2000)
    _, stay_s = longer(config, 200_000, in_order())
    assert_law(closed_forms.sjf(MEMORYLESS, 0.7, 0.01), stay_s)


def test_th_srpt_shortest_remaining_time_first(tmp_path: Path):
    config = run_of("th-srpt", tmp_path, shortest_remaining, num_requests=1000)
    _, stay_s = longer(config, 150_000, shortest_remaining)
    assert_law(closed_forms.srpt(MEMORYLESS, 0.7, 0.01), stay_s)


@pytest.mark.parametrize(("load", "gain"), [(0.5, 1.40), (0.7, 1.78), (0.8, 2.13), (0.9, 2.82)])
def test_th_gain_of_srpt_over_fcfs(tmp_path: Path, load: float, gain: float):
    """Mean time in the system, M/M/1. Both see the same requests: the difference fcfs - gain · srpt has mean 0."""
    assert round(closed_forms.fcfs_over_srpt(load), 2) == gain
    arrivals = f"trace.arrivals=poisson({load})"
    config = run_of("th-srpt", tmp_path, shortest_remaining, arrivals, num_requests=300)
    constant = np.zeros(300)
    run_of("th-srpt", tmp_path, in_order(constant), arrivals, "policy=fcfs", num_requests=300)
    _, short_s = longer(config, 100_000, shortest_remaining)
    _, by_arrival_s = longer(config, 100_000, in_order(np.zeros(100_000)))
    in_steps = closed_forms.fcfs(MEMORYLESS, load, 0.01) / closed_forms.srpt(MEMORYLESS, load, 0.01)
    assert in_steps == pytest.approx(gain, rel=0.02)  # steps of 10 ms cost who preempts
    mean, half = batch_means(by_arrival_s - in_steps * short_s, 2000)
    assert abs(mean) <= half < 0.15 * by_arrival_s.mean()


@pytest.mark.parametrize("lengths", ["geometric(20)", "choice(10:0.9,110:0.1)"])
def test_th_ps_round_robin_shares_the_processor(tmp_path: Path, lengths: str):
    """1 / (mu - rate) whatever the distribution, and in proportion to one's own length: less half a turn."""
    config = run_of("th-ps", tmp_path, round_robin, f"trace.output_tokens={lengths}", num_requests=100)
    trace, stay_s = longer(config, 150_000, round_robin)
    sharing_s = closed_forms.sharing(COARSE, 0.5, 0.05)
    assert sharing_s == pytest.approx(1 / (1 - 0.5) - 0.025)
    assert_law(sharing_s, stay_s)
    if "choice" in lengths:
        for tokens in (10, 110):
            assert_law(tokens * 0.05 / (1 - 0.5) - 0.025, stay_s[trace.output_tokens == tokens])


def test_th_las_least_attained_service_first(tmp_path: Path):
    config = run_of("th-las", tmp_path, least_attained, num_requests=200)
    _, stay_s = longer(config, 160_000, least_attained)
    low, high = closed_forms.las(MANY_SHORT, 0.5, 0.05)
    assert 0 < high - low < 0.02 * low
    mean, half = batch_means(stay_s, 2000)
    assert low - half <= mean <= high + half and half < 0.03 * low


def test_th_preemptive_priorities(tmp_path: Path):
    def by_class(num_requests: int) -> tuple[np.ndarray, Server]:
        priority = generated(config, num_requests).priority
        assert priority is not None
        return priority, lambda arrival_s, tokens, step_s: most_urgent(arrival_s, tokens, step_s, priority)

    config = run("th-preemptive", tmp_path, num_requests=10).config
    run_of("th-preemptive", tmp_path, by_class(1000)[1], num_requests=1000)
    priority, server = by_class(300_000)
    _, stay_s = longer(config, 300_000, server)
    for level, theory_s in enumerate(closed_forms.preemptive_priority(MEMORYLESS, (0.35, 0.35), 0.01)):
        assert_law(theory_s, stay_s[priority == level])


def test_th_noisy_the_price_of_misprediction(tmp_path: Path):
    """The run sees the predictions that the reference gets from the predictor; the long run draws its own."""
    config = run("th-noisy", tmp_path, num_requests=10).config
    trace, predictor = generated(config, 2000), Noisy("exponential")
    predictor.seed = config["seed"]
    predicted = predictor.predict_all([str(row) for row in range(2000)], trace.output_tokens.tolist())
    run_of("th-noisy", tmp_path, in_order(np.maximum(predicted, 1)), num_requests=2000)
    drawn = generated(config, 200_000).output_tokens * np.random.default_rng(1).exponential(size=200_000)
    _, stay_s = longer(config, 200_000, in_order(drawn))
    assert_law(closed_forms.sjf_with_exponential_predictions(MEMORYLESS, 0.7, 0.01), stay_s)


def test_th_mlfq_stands_between_srpt_and_fcfs(tmp_path: Path):
    """Lengths of 10 and 110 steps and a first quantum of 16: the short ones never leave the first queue."""

    def queues(arrival_s: np.ndarray, tokens: np.ndarray, step_s: float) -> np.ndarray:
        return feedback_queues(arrival_s, tokens, step_s, quantum=16, ratio=2)

    config = run_of("th-mlfq", tmp_path, queues, num_requests=1000)
    trace, stay_s = longer(config, 150_000, queues)
    assert_law(closed_forms.first_queue(MANY_SHORT, 0.5, 0.05, 16, 10), stay_s[trace.output_tokens == 10])
    best, worst = closed_forms.srpt(MANY_SHORT, 0.5, 0.05), closed_forms.fcfs(MANY_SHORT, 0.5, 0.05)
    mean, half = batch_means(stay_s, 2000)
    assert best < mean - half and mean + half < worst
    same = ("latency.base_s=0.05", "trace.arrivals=poisson(0.5)", "trace.output_tokens=choice(10:0.9,110:0.1)")
    for policy, server in (("srpt", shortest_remaining), ("fcfs", in_order(np.zeros(1000)))):
        assert run_of("th-srpt", tmp_path, server, *same, f"policy={policy}", num_requests=1000)["trace"] == config["trace"]


def test_a_rank_that_never_changes_serves_by_arrival():
    """The reference against the other one."""
    rng = np.random.default_rng(3)
    arrival_s, tokens = np.cumsum(rng.exponential(1 / 0.7, 500)), rng.geometric(0.01, 500)
    by_arrival_s = serve(arrival_s, tokens, 0.01, seats=1)[1]
    np.testing.assert_allclose(preemptive(arrival_s, tokens, 0.01, lambda request, had: 0), by_arrival_s, rtol=0, atol=1e-6)
