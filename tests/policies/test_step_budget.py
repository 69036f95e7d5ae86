"""What a step may hold: tokens, seats, chunks (acceptance cases bud-01, bud-07, bud-09, live-12, live-13, live-17)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies.scenarios import played, request, scheduled

CHUNKING = ["fcfs", "sarathi", "prefill_first"]
EVERY_POLICY = [*CHUNKING, "static", "orca"]

lengths = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 30)), min_size=1, max_size=12)


@pytest.mark.parametrize("policy", EVERY_POLICY)
@settings(max_examples=10, deadline=None)
@given(lengths=lengths, budget=st.sampled_from([64, 200, 2048]), seats=st.integers(1, 256))
def test_bud_01_no_step_exceeds_its_budget_or_is_empty(policy, lengths, budget, seats):
    requests = [request(f"r{place}", *length, arrival_s=place * 0.7) for place, length in enumerate(lengths)]
    steps, summary = played(policy, requests, 60, max_model_len=400, max_num_batched_tokens=budget, max_num_seqs=seats)
    tokens = [sum(step.values()) for step in scheduled(steps)]
    assert all(0 < count <= budget for count, step in zip(tokens, steps, strict=True) if step["end_s"] > step["start_s"])
    assert all(ended["status"] == "finished" for ended in summary["requests"].values())


def decodes_of_256_with_a_budget_of_200(policy):
    """128 prompts of one token fork into two samples each: 256 decodes from the second step on."""
    requests = [request(f"{place:03}", 1, 6, n=2) for place in range(128)]
    steps, _ = played(policy, requests, 512, max_num_batched_tokens=200, max_num_seqs=256)
    assert len(steps[0]["scheduled"]) == 128
    return [list(step) for step in scheduled(steps)]


def test_bud_01_sarathi_lets_those_run_first_for_whom_the_budget_did_not_suffice():
    _, second, third, *_ = decodes_of_256_with_a_budget_of_200("sarathi")
    everybody = {f"{place:03}.{sample}" for place in range(128) for sample in (0, 1)}
    left_out = everybody - set(second)
    assert len(second) == len(third) == 200
    assert len(left_out) == 56 and left_out <= set(third)


def test_bud_01_fcfs_goes_on_serving_the_first():
    _, second, third, *_ = decodes_of_256_with_a_budget_of_200("fcfs")
    assert len(second) == 200 and second == third


def test_the_turn_goes_round():
    """Three decodes, a budget of two: each gets two tokens in three steps."""
    steps, _ = played("sarathi", [request("A", 1, 7, n=3)], 64, max_num_batched_tokens=2)
    turns = [set(step) for step in scheduled(steps)[1:4]]
    assert sorted(len(turn) for turn in turns) == [2, 2, 2]
    assert all(sum(f"A.{sample}" in turn for turn in turns) == 2 for sample in range(3))


@pytest.mark.parametrize("policy", CHUNKING)
def test_bud_07_a_chunk_limit_above_the_budget_is_cut_to_it(policy):
    steps, _ = played(
        policy, [request("A", 4096, 2)], 300, max_model_len=8192, max_num_batched_tokens=2048,
        long_prefill_token_threshold=4096,
    )  # fmt: skip
    assert scheduled(steps) == [{"A": 2048}, {"A": 2048}, {"A": 1}]


@pytest.mark.parametrize("policy", CHUNKING)
def test_a_chunk_limit_holds_for_all_but_a_request_that_is_alone(policy):
    requests = [request("A", 40, 1), request("B", 8, 1)]
    steps, _ = played(policy, requests, 64, max_num_batched_tokens=64, long_prefill_token_threshold=16)
    assert scheduled(steps) == [{"A": 16, "B": 8}, {"A": 24}]


@pytest.mark.parametrize("policy", CHUNKING)
def test_bud_09_a_preempted_request_comes_back_with_its_outputs(policy):
    """Slots of one token. B is preempted with 100 + 50 tokens: 149 free slots are not enough for it, nor a budget of 120."""
    requests = [request("A", 10, 60), request("B", 100, 60)]
    steps, _ = played(policy, requests, 10 + 199, 1, max_num_batched_tokens=120)
    assert steps[50]["preempted"] == {"B": "recompute"}
    assert steps[50]["free_blocks"] == 149
    alone = scheduled(steps)[51:60]
    assert alone == [{"A": 1}] * 9  # A's outputs 52 to 60
    assert scheduled(steps)[60:63] == [{"B": 120}, {"B": 30}, {"B": 1}]
    assert steps[61]["free_blocks"] == 209 - 150


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_live_12_decodes_of_different_length_share_every_step(policy):
    requests = [request("A", 120, 6), request("B", 50, 6)]
    steps, summary = played(policy, requests, 64, max_model_len=256)
    assert scheduled(steps) == [{"A": 120, "B": 50}] + [{"A": 1, "B": 1}] * 5
    assert summary["preemptions"] == 0


@pytest.mark.parametrize("policy", CHUNKING)
def test_live_13_all_seats_are_taken_as_soon_as_the_budget_allows(policy):
    requests = [request(name, 2000, 20) for name in "ABCD"]
    steps, _ = played(policy, requests, 600, max_num_batched_tokens=2048, max_num_seqs=4)
    assert set().union(*scheduled(steps)[:4]) == set("ABCD")
    assert not any(step["finished"] for step in steps[:4])


@pytest.mark.parametrize("policy", CHUNKING)
def test_live_17_a_prompt_in_chunks_holds_the_blocks_of_what_is_computed(policy):
    steps, summary = played(policy, [request("A", 96, 2)], 64, max_num_batched_tokens=32)
    assert scheduled(steps) == [{"A": 32}, {"A": 32}, {"A": 32}, {"A": 1}]
    assert [len(step["block_tables"]["A"]) for step in steps[:3]] == [2, 4, 6]
    assert summary["requests"]["A"]["first_token_s"] == 3.0


@pytest.mark.parametrize("policy", CHUNKING)
def test_without_chunked_prefill_a_prompt_waits_for_a_budget_that_holds_it_whole(policy):
    requests = [request("A", 10, 2), request("B", 10, 2)]
    steps, _ = played(policy, requests, 16, 4, max_num_batched_tokens=12, enable_chunked_prefill=False)
    second = {"B": 10} if policy == "prefill_first" else {"A": 1, "B": 10}
    assert scheduled(steps)[:2] == [{"A": 10}, second]


def test_a_plan_that_preempts_until_it_fits_leaves_those_alone_who_need_nothing():
    """Asynchronous: a request of which all tokens are in flight is no reason to preempt anybody; the pool is ample."""
    import numpy as np

    from traces.trace import Trace
    from twin.core import Limits, Rules
    from twin.latency.linear import LinearLatency
    from twin.policy import Plan, Policy
    from twin.sim import Setup, simulate

    class UntilItFits(Policy):
        def schedule(self, view):
            plan = Plan(view)
            for runner in view.running:
                while not plan.take(runner) and plan.budget and runner.state == "running":
                    plan.preempt(plan.victim())
            while not plan.preempted and view.num_waiting and plan.take(view.head):
                pass
            return plan

    trace = Trace("few", np.array([0.0, 0.5, 3.0]), np.array([20, 30, 40]), np.array([5, 9, 3]))
    setup = Setup(Limits(99), UntilItFits(), LinearLatency(base_s=1.0), Rules(async_scheduling=True))
    outcome = simulate(setup, trace)
    assert outcome.requests["status"] == ["finished"] * 3 and outcome.counters["preemptions"] == 0
