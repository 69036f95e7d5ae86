"""Admission by SGLang's decaying share of what may yet be yielded."""

from types import SimpleNamespace

import numpy as np
import pytest

from policies.reserve_ratio import ReserveRatio
from tests.policies.scenarios import played, request
from traces.trace import Trace
from twin.core import Limits
from twin.latency.linear import LinearLatency
from twin.sim.simulation import Setup, Simulation

LIMITS = SimpleNamespace(max_model_len=4096, block_size=1, num_blocks=1000)


def admissions(steps):
    return {name: step["step"] for step in steps for name in step["admitted"]}


def running(**requests):
    """name=(prompt tokens, outputs so far, max_tokens)"""
    return [
        SimpleNamespace(id=name, prompt_tokens=prompt, generated=generated, max_tokens=most)
        for name, (prompt, generated, most) in requests.items()
    ]


def preempted(policy, left, limits=LIMITS):
    policy.on_preempt(None, "recompute", SimpleNamespace(running=left, limits=limits))


def stepped(policy, steps):
    policy.on_step(None, None, steps)
    return policy.ratio()


# --- the ratio


def test_the_ratio_falls_from_0_7_to_0_098_in_600_steps():
    policy = ReserveRatio()
    assert policy.ratio() == 0.7
    assert stepped(policy, 300) == pytest.approx((0.7 + 0.098) / 2)
    assert stepped(policy, 300) == pytest.approx(0.098)
    assert stepped(policy, 300) == 0.7 * 0.14


def test_steps_at_once_are_steps_one_by_one_to_the_last_bit():
    together, single = ReserveRatio(), ReserveRatio()
    for _ in range(123):
        stepped(single, 1)
    assert stepped(together, 123) == single.ratio()


def test_after_a_preemption_it_is_the_share_that_those_who_remain_have_used_and_20_tokens_each():
    """(30 + 20 + 10 + 20) / (100 + 99 + 1) = 0.4, and it falls from there."""
    policy = ReserveRatio()
    preempted(policy, running(A=(7, 30, 100), B=(9, 10, 99)))
    assert policy.ratio() == 0.4
    assert stepped(policy, 1) == pytest.approx(0.4 - 0.602 / 600)


def test_it_is_1_at_most():
    policy = ReserveRatio()
    preempted(policy, running(A=(7, 30, 40)))
    assert policy.ratio() == 1.0


def test_who_gave_no_limit_counts_with_what_the_model_allows():
    """(20 + 20) / (100 - 61 + 1) = 1; with max_tokens 199 it is (20 + 20) / 200."""
    policy, short = ReserveRatio(), SimpleNamespace(max_model_len=100)
    preempted(policy, running(A=(61, 20, None)), short)
    assert policy.ratio() == 1.0
    preempted(policy, running(A=(61, 20, 199)))
    assert policy.ratio() == 0.2


@pytest.mark.parametrize(("others", "ratio"), [(0, 0.7), (1, 0.098)])
def test_a_request_that_finds_the_system_idle_finds_the_ratio_of_the_start(others, ratio):
    policy = ReserveRatio()
    stepped(policy, 600)
    policy.on_arrival(None, SimpleNamespace(num_running=others, num_waiting=0, num_swapped=0))
    assert policy.ratio() == pytest.approx(ratio)


# --- who comes in


@pytest.mark.parametrize(("max_tokens", "step"), [(34, 2), (35, 51)])
def test_the_head_needs_its_prompt_and_its_limit_beside_the_share_of_the_others(max_tokens, step):
    """100 slots. In step 2 A holds 21 of them and may yield 49 more, times 0.7 - 0.602 / 600: 79 - 34.25 = 44.75 are left.
    B wants 10 + 34, or 10 + 35. Waiting does not help it: each step takes a slot, and gives back 0.7 and 0.05."""
    requests = [request("A", 20, 50, max_tokens=50), request("B", 10, 5, 0.5, max_tokens=max_tokens)]
    steps, _ = played("reserve_ratio", requests, 100, block_size=1)
    assert admissions(steps) == {"A": 1, "B": step}


def test_a_ratio_that_has_fallen_lets_the_refused_head_in():
    """The same with a decay within 10 steps, by 0.0602 a step, and B wants 50. Step 2: 79 - 49 * 0.6398 = 47.7,
    step 3: 78 - 48 * 0.5796 = 50.2."""
    requests = [request("A", 20, 50, max_tokens=50), request("B", 10, 5, 0.5, max_tokens=40)]
    steps, _ = played({"name": "reserve_ratio", "decay_steps": 10}, requests, 100, block_size=1)
    assert admissions(steps) == {"A": 1, "B": 3}


@pytest.mark.parametrize(("max_tokens", "step"), [(19, 1), (20, 2)])
def test_who_came_in_with_the_same_plan_counts_with_all_that_it_may_yield(max_tokens, step):
    """100 slots: A takes 20 and may yield 50; B wants 10 + 19 < 80 - 50, or 10 + 20. A step later A counts with 0.7."""
    requests = [request("A", 20, 50, max_tokens=50), request("B", 10, 5, max_tokens=max_tokens)]
    steps, _ = played("reserve_ratio", requests, 100, block_size=1)
    assert admissions(steps) == {"A": 1, "B": step}


@pytest.mark.parametrize(("prompt_tokens", "step"), [(13, 1), (14, 2)])
def test_the_part_of_a_prompt_that_has_no_blocks_yet_counts_too(prompt_tokens, step):
    """100 slots, chunks of 10 tokens of a budget of 40: A has taken 10 of 20, and may yield 50. B may yield 16 and C 1.
    B wants prompt + 16 < 90 - 10 - 50, and after it C: 2 + 1 < 80 - 10 - 50 - (prompt - 10) - 16 = 14 - prompt."""
    requests = [request("A", 20, 50, max_tokens=50), request("B", prompt_tokens, 5, max_tokens=16)]
    steps, _ = played(
        "reserve_ratio", requests, 100, block_size=1, max_num_batched_tokens=40, long_prefill_token_threshold=10
    )
    assert admissions(steps) == {"A": 1, "B": step}


def test_a_limit_counts_for_4096_tokens_at_most():
    """5000 slots: A takes 10 and counts with 4096 more, not with 4900; 894 are left for B."""
    requests = [request("A", 10, 3, max_tokens=4900), request("B", 10, 2, max_tokens=883)]
    steps, _ = played("reserve_ratio", requests, 5000, block_size=1, max_model_len=10000)
    assert admissions(steps) == {"A": 1, "B": 1}


def test_when_nothing_runs_the_head_comes_in():
    steps, _ = played("reserve_ratio", [request("A", 16, 2, max_tokens=17)], 2)
    assert admissions(steps) == {"A": 1}


# --- who goes


def test_who_has_put_out_least_is_preempted_then_the_longest_prompt_then_the_last():
    choose = lambda **requests: ReserveRatio().victim(running(**requests), None).id  # noqa: E731
    assert choose(A=(5, 3, 9), B=(5, 2, 9), C=(9, 3, 9)) == "B"
    assert choose(A=(5, 2, 9), B=(8, 2, 9), C=(9, 3, 9)) == "B"
    assert choose(A=(8, 2, 9), B=(8, 2, 9), C=(8, 3, 9)) == "B"


def test_a_preemption_makes_the_next_admission_harder():
    """110 slots, no share of which is kept at first. In step k A, D, B hold k + 3, k + 18, k + 1: 109 in step 29. In step 30
    B goes, with the fewest outputs, 27, and wants 31 + 13. A has 29 of 100 and D 28 of 40: the ratio is 97 / 141 = 0.69.
    When D has ended, with step 41, A holds 45 and may yield 59 more. Without that share B would come back: 44 < 65."""
    requests = [
        request("A", 4, 60, max_tokens=100),
        request("D", 20, 40, 0.5, max_tokens=40),
        request("B", 4, 40, 1.5, max_tokens=40),
    ]
    steps, _ = played({"name": "reserve_ratio", "initial": 0.0}, requests, 110, block_size=1)
    assert {step["step"]: step["preempted"] for step in steps if step["preempted"]} == {30: {"B": "recompute"}}
    assert [step["step"] for step in steps if "B" in step["admitted"]] == [3, 61]
    assert steps[40]["finished"] == ["D"] and steps[59]["finished"] == ["A"]


# --- fast-forward


def test_a_refusal_stands_until_the_ratio_has_fallen_and_is_not_asked_for_again_before():
    """A holds 100 + s of 3000 slots s steps after the first and may yield 2000 - s more; B wants 1800. At s = 199:
    2701 - 1801 * 0.50033 = 1799.9, at s = 200: 2700 - 1800 * 0.49933 = 1801.2."""
    trace = Trace("two", np.array([0.0, 0.5]), np.array([100, 100]), np.array([2000, 10]), max_tokens=np.array([2000, 1700]))

    def outcome(step_by_step):
        setup = Setup(Limits(3000, 1), ReserveRatio(), LinearLatency(base_s=1.0))
        simulation = Simulation(setup, trace, step_by_step=step_by_step)
        return simulation.run().requests["first_scheduled_s"].tolist(), simulation.scheduler.state.plans

    stamps, plans = outcome(step_by_step=False)
    assert (stamps, plans) == ([0.0, 200.0], plans) and plans < 10
    assert outcome(step_by_step=True) == (stamps, 2000)


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({"initial": 1.5}, "initial must be from 0 to 1, not 1.5"),
        ({"minimum_share": -1.0}, "minimum_share must be from 0 to 1, not -1.0"),
        ({"decay_steps": 0}, "decay_steps must be 1 or more, not 0"),
        ({"clip_tokens": 0}, "clip_tokens must be 1 or more, not 0"),
        ({"retract_steps": -1}, "retract_steps must be 0 or more, not -1"),
    ],
)
def test_parameters_that_make_no_sense(parameter, message):
    with pytest.raises(ValueError, match=message):
        ReserveRatio(**parameter)
