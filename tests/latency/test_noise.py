"""Step noise: its distribution, its key, and that no way through a run changes it."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from policies.fcfs import Fcfs
from tests.latency.shapes import gpu, model
from tests.sim.cases import Case, cases, difference
from traces.trace import Trace
from twin.core import Limits, Rules
from twin.core.batch import Features
from twin.latency.linear import LinearLatency
from twin.latency.make import make_latency
from twin.latency.noise import NoisyLatency
from twin.sim.simulation import Setup, Simulation

DECODE = Features(4, 0, 4, 400)


def noisy(spread: float = 0.1, seed: int = 7) -> NoisyLatency:
    return NoisyLatency(LinearLatency(base_s=0.01, per_context_token_s=1e-6), spread, seed)


def test_the_mean_is_kept_and_the_spread_is_that_asked_for():
    """Of N independent factors of standard deviation s the mean lies within 4 s / sqrt(N) of 1 (but once in 16,000), the
    standard deviation within some percent of s."""
    for spread in (0.03, 0.5):
        factors = [noisy(spread).factor(number) for number in range(1, 40_001)]
        assert statistics.fmean(factors) == pytest.approx(1.0, abs=4 * spread / math.sqrt(40_000))
        assert statistics.pstdev(factors) == pytest.approx(spread, rel=0.04)
        assert min(factors) > 0


def test_the_logarithm_of_a_factor_is_normal():
    """Median exp(-s^2 / 2), and 15.87 % of the factors beyond one standard deviation of the logarithm."""
    sigma = math.sqrt(math.log1p(0.2**2))
    logs = np.log([noisy(0.2).factor(number) for number in range(1, 20_001)]) + sigma**2 / 2
    assert np.median(logs) == pytest.approx(0.0, abs=4 * 1.2533 * sigma / math.sqrt(20_000))
    assert np.mean(logs > sigma) == pytest.approx(0.1587, abs=0.011)


def test_neighbouring_steps_are_independent():
    factors = np.array([noisy().factor(number) for number in range(1, 20_001)])
    assert abs(np.corrcoef(factors[:-1], factors[1:])[0, 1]) < 4 / math.sqrt(20_000)


def test_a_steps_noise_depends_on_seed_and_number_alone():
    once, again, other = noisy(), noisy(), noisy(seed=8)
    steps = [DECODE, Features(1, 64, 0, 64, 64, 2048.0, 1), DECODE]
    first = [once.step_s(step) for step in steps]
    assert [again.step_s(step) for step in steps] == first
    assert again.step_s(DECODE) == once.step_s(DECODE) != first[0]
    assert other.step_s(DECODE) != first[0]
    assert first[0] == 0.0104 * noisy().factor(1)


def test_a_stretch_has_the_noise_of_its_steps_to_the_last_bit():
    one_by_one, at_once = noisy(), noisy()
    one_by_one.step_s(DECODE), at_once.step_s(DECODE)
    now, expected = 3.25, []
    for index in range(20):
        now += one_by_one.step_s(Features(4, 0, 4, 404 + 4 * index))
        expected.append(now)
    assert at_once.stretch(3.25, 4, 404, 12, math.inf) == expected[:12]
    stopped = at_once.stretch(expected[11], 4, 404 + 48, 8, expected[14])
    assert stopped == expected[12:15]  # the first that ends at or after
    at_once.take_back(1)
    assert at_once.stretch(expected[13], 4, 404 + 56, 6, math.inf) == expected[14:20]


@settings(max_examples=80, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_with_noise_too_every_way_through_a_run_has_the_same_outcome(case: Case):
    def setup() -> Setup:
        made = case.setup()
        made.latency = NoisyLatency(made.latency, 0.3, 11)
        return made

    literal = Simulation(setup(), case.trace, step_by_step=True, literal=True).run()
    usual = Simulation(setup(), case.trace, step_by_step=True).run()
    forward = Simulation(setup(), case.trace).run()
    assert (difference(literal, usual), difference(usual, forward)) == (None, None)


def test_fast_forward_is_taken_with_noise():
    """Two requests of 200 tokens: their 199 decode steps are one stretch, and one row."""
    trace = Trace("two", np.zeros(2), np.full(2, 8), np.full(2, 200))
    for asynchronous in (False, True):
        system = Setup(Limits(num_blocks=99), Fcfs(), noisy(), Rules(async_scheduling=asynchronous))
        simulation = Simulation(system, trace)
        calls = []
        plan = simulation.scheduler.plan
        simulation.scheduler.plan = lambda now_s, plan=plan, calls=calls: calls.append(now_s) or plan(now_s)
        assert simulation.run().counters["steps"] == 200 and len(calls) < 20


def test_latency_noise_draws_from_the_files_spread_with_the_runs_seed(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("{coefficients: {base_s: 0.5}, range: {}, spread: 0.04, source: a stopwatch}")
    made = [make_latency("fitted", {"path": str(path), "noise": True}, model(), gpu(), seed=seed) for seed in (3, 3, 4)]
    assert all(isinstance(each, NoisyLatency) and each.spread == 0.04 for each in made)
    first, same, other = (each.step_s(DECODE) for each in made)
    assert first == same != other and first != 0.5
    assert made[0].describe()["noise"] is True and made[0].expected().step_s(DECODE) == 0.5
    assert make_latency("fitted", {"path": str(path), "noise": False}, model(), gpu()).step_s(DECODE) == 0.5


def test_where_no_spread_was_measured_noise_is_off_and_this_is_said():
    notes: list[str] = []
    made = make_latency("fitted", {"noise": True}, model("qwen2.5-7b"), gpu("l40s"), notes=notes)
    assert made.describe()["name"] == "roofline" and "latency.noise: nobody measured" in notes[-1]
    with pytest.raises(ValueError, match="latency.noise=1: must be true or false"):
        make_latency("fitted", {"noise": 1}, model(), gpu())
