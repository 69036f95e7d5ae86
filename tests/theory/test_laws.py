"""Queueing laws (docs/theory.md), from the command line.

Two steps a law. The run equals the textbook server of `reference.py` request for request, to rounding: no interval could be
tighter. And the mean of that server's requests, so many more that the interval is narrower than 3 %, is the theory's value
within it. Intervals are of 95 %, so one seed in twenty fails a law: the seed is fixed to one that does not.
"""

from math import factorial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.theory.commands import run
from tests.theory.intervals import batch_means
from tests.theory.reference import serve
from traces import Trace, open_trace
from twin.results.load import Run

WARMUP = 2000
LENGTHS = ("geometric(200)", "constant(200)", "choice(50:0.8,800:0.2)")  # of mean 200 all


class Stay(NamedTuple):
    """Of each request, seconds."""

    queue_s: np.ndarray
    e2e_s: np.ndarray


def generated(config: dict, num_requests: int) -> Trace:
    """The trace of a run's configuration, so long."""
    return open_trace(**config["trace"] | {"num_requests": num_requests}, seed=config["seed"])


def textbook(config: dict, trace: Trace, by_priority: bool = False) -> Stay:
    """The reference with the limits and step times of a run's configuration."""
    latency, seats = config["latency"], config["scheduler"]["max_num_seqs"]
    priority = trace.priority if by_priority else None
    start_s, finish_s = serve(trace.arrival_s, trace.output_tokens, latency["base_s"], latency["per_seq_s"], seats, priority)
    return Stay(start_s - trace.arrival_s, finish_s - trace.arrival_s)


def assert_is_textbook(done: Run, by_priority: bool = False) -> None:
    stay = textbook(done.config, generated(done.config, len(done.requests["e2e_s"])), by_priority)
    np.testing.assert_allclose(done.requests["queue_s"], stay.queue_s, rtol=0, atol=1e-6)
    np.testing.assert_allclose(done.requests["e2e_s"], stay.e2e_s, rtol=0, atol=1e-6)


def assert_law(theory: float, values: np.ndarray) -> None:
    mean, half = batch_means(values, WARMUP)
    assert abs(mean - theory) <= half, f"{mean:.4g} ± {half:.2g} is not {theory:.4g}"
    assert half < 0.03 * theory, f"± {half / theory:.1%} is no test of a law"


def test_th_01_pollaczek_khinchine(tmp_path: Path):
    """W = rate E[S²] / (2 (1 - load)), S = 0.1 s times a uniform of 1 to 19: E[S] = 1 s, E[S²] = 1.3 s²."""
    done = run("th-01", tmp_path, num_requests=4000)
    stay = textbook(done.config, generated(done.config, 400_000))
    assert_is_textbook(done)
    wait_s = 0.8 * 1.3 / (2 * (1 - 0.8))
    assert wait_s == pytest.approx(2.6)
    assert_law(wait_s + 1.0, stay.e2e_s)


def half_step_s(base_s: float, per_seq_s: float, load: float) -> float:
    """Half of the step that an arrival meets: E[D²] / (2 E[D]), from the chain of batch sizes for geometric lengths."""
    tokens, rate = 200, load / (200 * per_seq_s)
    mean = rate * base_s * tokens / (1 - load)  # of the batch, a step
    stays = 1 - 1 / tokens
    variance = (mean * stays / tokens + mean / tokens) / (1 - (stays + rate * per_seq_s) ** 2)
    step_s = base_s + per_seq_s * mean
    return (step_s + per_seq_s**2 * variance / step_s) / 2


@pytest.mark.parametrize("lengths", LENGTHS)
def test_th_03_continuous_batching_is_processor_sharing(tmp_path: Path, lengths: str):
    """E[T] = E[O] (base + per sequence) / (1 - load) whatever the lengths' distribution, plus half a step."""
    done = run("th-03", tmp_path, f"trace.output_tokens={lengths}", num_requests=2000)
    trace = generated(done.config, 200_000)
    stay = textbook(done.config, trace)
    assert_is_textbook(done)
    shared_s = 200 * 0.0104 / (1 - 0.7)
    assert (shared_s, half_step_s(0.01, 0.0004, 0.7)) == (pytest.approx(6.933, abs=1e-3), pytest.approx(0.01713, abs=1e-5))
    assert_law(shared_s + half_step_s(0.01, 0.0004, 0.7), stay.e2e_s)
    for tokens in sorted(set(trace.output_tokens)) if len(set(trace.output_tokens)) < 3 else ():  # linear in one's own
        own = stay.e2e_s[trace.output_tokens == tokens]
        assert_law(tokens * shared_s / 200 + half_step_s(0.01, 0.0004, 0.7), own)


def erlang_c(servers: int, offered: float) -> float:
    """The probability that an arrival has to wait (Erlang, 1917)."""
    all_busy = offered**servers / factorial(servers) / (1 - offered / servers)
    return all_busy / (sum(offered**k / factorial(k) for k in range(servers)) + all_busy)


def test_th_06_erlang_c(tmp_path: Path):
    """W = C(4, 3.2) / (4 - 3.2) s, and half a step of 1 ms for those who meet a busy server."""
    done = run("th-06", tmp_path, num_requests=2000)
    stay = textbook(done.config, generated(done.config, 400_000))
    assert_is_textbook(done)
    wait_s = erlang_c(4, 3.2) / (4 - 3.2)
    assert wait_s == pytest.approx(0.7455, abs=1e-4)
    assert_law(wait_s + 1.0 + 0.0005, stay.e2e_s)


def test_th_07_priorities_and_conservation(tmp_path: Path):
    """Cobham (1954): W1 = W0 / (1 - load1), W2 = W1 / (1 - load); Kleinrock (1965): the sum of load_i W_i is the same for
    every order that is blind to sizes and never idles."""
    done = run("th-07", tmp_path, num_requests=1500)
    trace = generated(done.config, 600_000)
    by_priority, by_arrival = textbook(done.config, trace, by_priority=True), textbook(done.config, trace)
    assert_is_textbook(done, by_priority=True)
    residual_s = 0.8 * (2 - 1 / 1000) / 2  # rate E[S²] / 2; of an exponential instead of steps of 1 ms: 0.8 s
    assert trace.priority is not None
    urgent_s, other_s = (by_priority.queue_s[trace.priority == level] for level in (0, 1))
    assert_law(residual_s / (1 - 0.4), urgent_s)
    assert_law(residual_s / (1 - 0.4) / (1 - 0.8), other_s)
    conserved_s = 0.4 * urgent_s.mean() + 0.4 * other_s.mean()
    assert conserved_s == pytest.approx(0.8 * by_arrival.queue_s.mean(), rel=0.005)
    assert_law(0.8 * residual_s / (1 - 0.8), 0.8 * by_arrival.queue_s)

    fcfs = run("th-07", tmp_path, "policy=fcfs", num_requests=1500)
    assert_is_textbook(fcfs)


def test_th_10_a_closed_loop_is_exact(tmp_path: Path):
    """64 users without think time: a step always holds 64 and takes 35.6 ms."""
    done = run("th-10", tmp_path, num_requests=640)
    assert done.summary["output_token_throughput"] == pytest.approx(64 / 0.0356, rel=1e-12)
    assert done.summary["output_token_throughput"] == pytest.approx(1797.75, abs=0.005)
    assert done.summary["batch_size_mean"] == 64
    np.testing.assert_allclose(done.requests["tpot_s"], 0.0356, rtol=1e-10)
