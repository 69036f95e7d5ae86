"""Deficit round robin, weighted fair queueing, deficit longest prefix match, requests a minute: by hand, one seat."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from policies.dlpm import Dlpm
from policies.drr import Drr
from policies.lcf import Lcf
from policies.rpm import Rpm
from policies.vtc import Vtc
from policies.wfq import Wfq
from tests.policies.scenarios import played, request
from tests.sim.cases import Case, cases, difference
from traces.trace import Trace
from twin.core.limits import Limits
from twin.latency.linear import LinearLatency
from twin.sim.simulation import Setup, Simulation


def order_of_admission(steps: list[dict[str, Any]]) -> list[str]:
    return [name for step in steps for name in step["admitted"]]


def admitted(policy: dict[str, Any], requests: list[dict[str, Any]], **more: Any) -> list[str]:
    """In that order, for one seat."""
    steps, _ = played(policy, requests, 64, max_num_seqs=1, **more)
    return order_of_admission(steps)


def turns(user: str, prompts: list[int], output_tokens: int = 1, arrival_s: float = 0.0) -> list[dict[str, Any]]:
    return [request(f"{user}{turn}", size, output_tokens, arrival_s, user=user) for turn, size in enumerate(prompts)]


# --- deficit round robin

FREE_OUTPUT = {"name": "drr", "output_weight": 0.0}


def test_drr_gives_a_user_as_many_requests_a_turn_as_the_quantum_pays_for():
    """Shreedhar and Varghese's example in small: 100 a turn pay for one of 60 (40 left), then for two (140), then one."""
    requests = turns("a", [60] * 4) + turns("b", [20] * 9)
    order = admitted({**FREE_OUTPUT, "quantum_tokens": 100}, requests)
    assert order == ["a0", "b0", "b1", "b2", "b3", "b4", "a1", "a2", "b5", "b6", "b7", "b8", "a3"]


def test_drr_passes_rounds_in_which_nobody_can_come_in_at_once():
    """A quantum of 1: c's 30 tokens are paid for in round 30, b's 50 in round 50, a's 70 in round 70."""
    requests = turns("a", [70]) + turns("b", [50]) + turns("c", [30, 30])
    assert admitted({**FREE_OUTPUT, "quantum_tokens": 1}, requests) == ["c0", "b0", "c1", "a0"]


def test_drr_takes_outputs_from_the_balance_as_they_come_and_a_debt_costs_turns():
    """a has 100 - 10 - 2·100 after its first request: -110, so it has 90 in the third round, enough for its second."""
    requests = turns("a", [10, 10], output_tokens=100) + turns("b", [90] * 3)
    assert admitted({"name": "drr", "quantum_tokens": 100}, requests) == ["a0", "b0", "b1", "a1", "b2"]


def test_drr_a_user_who_leaves_keeps_nothing():
    """a's 90 left over are gone when it comes again, in the round after next: its 100 do not pay for 150 at once."""
    requests = turns("a", [10]) + turns("b", [100] * 5) + [request("a1", 150, 1, 1.5, user="a")]
    assert admitted({**FREE_OUTPUT, "quantum_tokens": 100}, requests) == ["a0", "b0", "b1", "b2", "a1", "b3", "b4"]


def test_drr_a_user_who_always_comes_back_at_once_has_one_turn_a_round():
    requests = turns("b", [100] * 4) + [request(f"a{turn}", 10, 1, 2 * turn, user="a") for turn in range(4)]
    order = admitted({**FREE_OUTPUT, "quantum_tokens": 100}, requests)
    assert order == ["b0", "a0", "b1", "a1", "b2", "a2", "b3", "a3"]


def test_drr_a_head_that_gives_up_makes_way_for_a_smaller_one():
    """a's 150 would have come in round 2; its 20 behind come in in this one."""
    requests = [request("a0", 150, 1, user="a", abort_s=0.5), request("a1", 20, 1, user="a"), *turns("b", [40] * 4)]
    assert admitted({**FREE_OUTPUT, "quantum_tokens": 100}, requests)[:4] == ["b0", "b1", "a1", "b2"]


# --- weighted fair queueing


def test_wfq_serves_by_finish_tags():
    """Tags: a 30, 60, 90; b 10, 20, 30; on a tie (30) the earlier id."""
    requests = turns("a", [30] * 3) + turns("b", [10] * 3)
    assert admitted({"name": "wfq", "output_weight": 0.0}, requests) == ["b0", "b1", "a0", "b2", "a1", "a2"]


def test_wfq_weights_divide_the_cost():
    """a 30, 60, 90; b at weight 3: 10, 20, 30."""
    requests = turns("a", [30] * 3) + turns("b", [30] * 3)
    policy = {"name": "wfq", "output_weight": 0.0, "weights": "b:3"}
    assert admitted(policy, requests) == ["b0", "b1", "a0", "b2", "a1", "a2"]


def test_wfq_who_was_idle_begins_at_the_virtual_time():
    """b comes when a1 (tag 20) runs: its tag is 20 + 25, behind a's third and fourth (30, 40), before its fifth."""
    requests = turns("a", [10] * 6) + turns("b", [25], arrival_s=1.5)
    assert admitted({"name": "wfq", "output_weight": 0.0}, requests) == ["a0", "a1", "a2", "a3", "b0", "a4", "a5"]


@pytest.mark.parametrize(
    ("predictor", "limits", "first"),
    [
        ("oracle", {}, "b0"),  # 10 + 2·9 = 28 before 20 + 2·5 = 30
        ("none", {"max_tokens": 30}, "a0"),  # by its limit b costs 70, and so does a at 25
        ("none", {}, "b0"),  # both are taken for 100: 10 + 200 before 20 + 200
    ],
)
def test_wfq_takes_the_prediction_else_the_limit_else_what_it_assumes(predictor, limits, first):
    a = request("a0", 20, 5, user="a", **({"max_tokens": 5} if limits else {}))
    b = request("b0", 10, 9, user="b", **limits)
    policy = {"name": "wfq", "assumed_output_tokens": 100}
    assert admitted(policy, [a, b], predictor=predictor)[0] == first


# --- deficit longest prefix match

COLD = {"name": "dlpm", "output_weight": 0.0}
CACHE = {"enable_prefix_caching": True}


def test_dlpm_serves_a_user_until_its_deficit_is_spent_then_the_others_then_all_are_refilled():
    """Nobody has any: a refill, 50 each. a: 50, 10, -30; b: 50, 10, -30; 20 each: a -20, b -20; 30 each: a3, b3."""
    requests = turns("a", [40] * 4) + turns("b", [40] * 4)
    assert admitted({**COLD, "quantum_tokens": 50}, requests) == ["a0", "a1", "b0", "b1", "a2", "b2", "a3", "b3"]


def test_dlpm_a_new_user_has_nothing_until_the_next_refill():
    """b comes when a has 10: after a1 (-30) a refill, a 20, b 50; a2 (-20), b0, b1 (-30); a 30, b 20; a3, b2; b3."""
    requests = turns("a", [40] * 4) + turns("b", [40] * 4, arrival_s=0.25)
    assert admitted({**COLD, "quantum_tokens": 50}, requests) == ["a0", "a1", "a2", "b0", "b1", "a3", "b2", "b3"]


def test_dlpm_takes_outputs_too():
    """a has 50 - 10 - 2·20 = 0 after one request, which is not positive; b has 50 - 3·(10 + 2) = 14 after three."""
    requests = turns("a", [10] * 2, output_tokens=20) + turns("b", [10] * 3)
    assert admitted({"name": "dlpm", "quantum_tokens": 50}, requests) == ["a0", "b0", "b1", "b2", "a1"]


def test_dlpm_a_refill_is_as_often_as_it_takes_and_for_those_in_debt_alone():
    """a owes 130 and c 50, with 100 each time: c is ready after one refill, a after two."""
    requests = turns("a", [230, 10]) + turns("c", [150, 10])
    assert admitted({**COLD, "quantum_tokens": 100}, requests) == ["a0", "c0", "c1", "a1"]


def test_dlpm_among_users_with_a_deficit_the_longest_cached_prefix_goes_first():
    """a0 leaves the blocks 0-31 in the cache; b1 shares two of them, a2 one, a1 and b0 none."""
    requests = [
        request("a0", 0, 1, user="a") | {"prompt": "0-31,1000-1003"},
        request("a1", 0, 1, user="a") | {"prompt": "100-131"},
        request("b0", 0, 1, user="b") | {"prompt": "200-231"},
        request("a2", 0, 1, user="a") | {"prompt": "0-15,300-315"},
        request("b1", 0, 1, user="b") | {"prompt": "0-31,400-415"},
    ]
    requests = [{key: value for key, value in entry.items() if key != "prompt_tokens"} for entry in requests]
    assert admitted({**COLD, "quantum_tokens": 1000}, requests, cache=CACHE) == ["a0", "b1", "a2", "a1", "b0"]
    # With 30, a has -6 after its first and b, refilled with it, 14 after b1 (48 tokens, 32 of them cached: 16 of its 30).
    assert admitted({**COLD, "quantum_tokens": 30}, requests, cache=CACHE) == ["a0", "b1", "b0", "a2", "a1"]
    # A window of one: the earliest of those with a deficit.
    assert admitted({**COLD, "quantum_tokens": 1000, "window": 1}, requests, cache=CACHE) == ["a0", "a1", "a2", "b0", "b1"]


# --- requests a minute


def start_s(summary: dict[str, Any], steps: list[dict[str, Any]]) -> dict[str, float]:
    return {name: step["start_s"] for step in steps for name in step["admitted"]}


def test_rpm_requests_over_the_limit_wait_and_nobody_waits_behind_them():
    requests = [request(f"a{turn}", 4, 1, 0.5 * turn, user="a") for turn in range(5)] + [request("b0", 4, 1, 3, user="b")]
    steps, summary = played({"name": "rpm", "limit": 2}, requests, 64, max_num_seqs=1)
    assert start_s(summary, steps) == {"a0": 0, "a1": 1, "b0": 3, "a2": 60, "a3": 61, "a4": 120}
    # a1 was let through at 0.5 s, a3 is at 60.5 s, when a step is under way


def test_rpm_the_window_slides():
    """Two a minute: a2 and a3 come at 50 s, 60 s after a0 and a1 were let through they are."""
    requests = [request(f"a{turn}", 4, 1, at_s, user="a") for turn, at_s in enumerate([0, 40, 50, 50])]
    steps, summary = played({"name": "rpm", "limit": 2}, requests, 64)
    assert start_s(summary, steps) == {"a0": 0, "a1": 40, "a2": 60, "a3": 100}


def test_rpm_requests_over_the_limit_are_refused_and_do_not_count():
    requests = [request(f"a{turn}", 4, 1, at_s, user="a") for turn, at_s in enumerate([0, 10, 20, 61, 65, 71])]
    _, summary = played({"name": "rpm", "limit": 2, "over": "reject"}, requests, 64)
    assert [name for name, entry in summary["requests"].items() if entry["status"] == "rejected"] == ["a2", "a4"]


# --- decisions that fall between events


@pytest.mark.parametrize("step_by_step", [False, True])
@pytest.mark.parametrize(
    ("policy", "b1_s", "b2_s"),
    [
        # a has 20 + 2 a step and b 62: more than that after 22 steps.
        (Vtc(), 0, 22),
        (Lcf(), 0, 22),
        # a has 53.46 + 1.8 s + 0.032 s² after s steps and b 140.892: s > 31.2.
        (Vtc(cost="profiled"), 0, 32),
        # a's balance, 400 - 20 - 2 a step, does not pay for a2's 310 after 36 steps; b's 400 pay for both.
        (Drr(quantum_tokens=400), 36, 36),
        # a's deficit, 50 - 20 - 2 a step, is spent after 15; b's by b1, so a gets 50 more, for 25 steps.
        (Dlpm(quantum_tokens=50), 15, 40),
    ],
)
def test_a_head_that_does_not_fit_loses_its_place_by_what_its_user_is_served(policy, b1_s, b2_s, step_by_step):
    """A step a second, 20 blocks. a1 runs for 100 steps, a2 needs all 20 and blocks the queue; b1 and b2 would fit.

    a3, behind a2, comes in between for nothing but that everybody is asked once more.
    """
    trace = Trace(
        "crossing",
        np.array([0.0, 0.0, 0.0, 0.0, 10.5]),
        np.array([20, 310, 60, 10, 10]),
        np.array([100, 1, 1, 1, 1]),
        request_id=["a1", "a2", "b1", "b2", "a3"],
        user=["a", "a", "b", "b", "a"],
    )
    limits = Limits(num_blocks=20, block_size=16, max_num_seqs=8, max_num_batched_tokens=2048, max_model_len=512)
    setup = Setup(limits, deepcopy(policy), LinearLatency(base_s=1.0))
    outcome = Simulation(setup, trace, step_by_step=step_by_step).run()
    assert outcome.requests["first_scheduled_s"].tolist() == [0, 100, b1_s, b2_s, 101]
    if not step_by_step:
        assert len(outcome.steps["repeat"]) < 20  # it did go forward fast


class TwoAMinute(Rpm):
    def __init__(self) -> None:
        super().__init__(2)


class OneAMinute(Rpm):
    def __init__(self) -> None:
        super().__init__(1, over="reject")


class SmallQuantum(Drr):
    def __init__(self) -> None:
        super().__init__(7, output_weight=0.3)


class SmallDeficit(Dlpm):
    def __init__(self) -> None:
        super().__init__(11, output_weight=0.3, window=3)


class Weighted(Wfq):
    def __init__(self) -> None:
        super().__init__(weights="u0:0.3,u1:2")


@settings(max_examples=50, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(case=cases(policies=(TwoAMinute, OneAMinute, SmallQuantum, SmallDeficit, Weighted)))
def test_steps_at_once_decide_as_single_ones(case: Case) -> None:
    outcome = Simulation(case.setup(), case.trace).run()
    assert outcome.complete and "unfinished" not in outcome.requests["status"]
    assert difference(outcome, Simulation(case.setup(), case.trace, step_by_step=True).run()) is None


@pytest.mark.parametrize(
    ("policy", "parameters", "message"),
    [
        (Drr, {"quantum_tokens": 0}, "quantum_tokens must be 1 or more tokens, not 0"),
        (Drr, {"output_weight": -1.0}, "output_weight must be 0 or more"),
        (Dlpm, {"quantum_tokens": 0}, "quantum_tokens must be 1 or more, not 0"),
        (Dlpm, {"window": 0}, "window must be 1 or more, not 0"),
        (Dlpm, {"prompt_weight": float("nan")}, "prompt_weight must be 0 or more"),
        (Wfq, {"weights": "a=2"}, "weights must be user:weight"),
        (Wfq, {"assumed_output_tokens": 0}, "assumed_output_tokens must be 1 or more"),
        (Rpm, {"limit": 0}, "limit must be 1 or more requests a minute, not 0"),
    ],
)
def test_parameters_that_are_none_are_refused(policy, parameters, message):
    with pytest.raises(ValueError, match=message):
        policy(**parameters)
