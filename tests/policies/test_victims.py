"""Whose blocks are taken, and who comes back first (acceptance cases pri-04, pri-05, pri-06)."""

import pytest

from policies.fcfs import Fcfs
from policies.priority import Priority
from tests.policies.scenarios import played, request
from twin.core.limits import Limits
from twin.core.request import Request
from twin.core.scheduler import Scheduler


@pytest.mark.parametrize("policy", ["fcfs", "prefill_first", "sarathi"])
def test_pri_05_the_last_to_arrive_is_the_victim(policy):
    """Slots of one token, 27 of them. When A, B and C hold them all, A needs one more."""
    requests = [request(name, 8, 9, arrival_s) for arrival_s, name in enumerate("ABC")]
    steps, _ = played(policy, requests, 27, 1)
    victims = [name for step in steps for name in step["preempted"]]
    assert victims[0] == "C" and "A" not in victims


@pytest.mark.parametrize(
    ("victim", "chosen", "wasted"),
    [("last", "A", 8000), ("least_computed", "B", 100), ("longest", "A", 8000)],
)
@pytest.mark.parametrize("policy", ["fcfs", "sarathi", "prefill_first"])
def test_pri_06_what_a_victim_costs(policy, victim, chosen, wasted):
    """B, 100 tokens in 7 blocks, was admitted before A, 8000 tokens in 500; A needs one block more, and none is free."""
    requests = [request("B", 100, 10), request("A", 8000, 5)]
    steps, summary = played(
        {"name": policy, "victim": victim}, requests, 507, max_model_len=10000, max_num_batched_tokens=8192
    )
    assert steps[0]["free_blocks"] == 0
    assert steps[1]["preempted"] == {chosen: "recompute"}
    assert {name: ended["recomputed_tokens"] for name, ended in summary["requests"].items()} == {
        "A": 0, "B": 0, chosen: wasted,
    }  # fmt: skip


@pytest.mark.parametrize(("policy", "first"), [(Priority(), "B"), (Fcfs(), "A")])
def test_pri_04_who_comes_back_first(policy, first):
    """A was preempted; B has the same priority, arrived earlier, came in late and has never run.

    By (priority, arrival) it is B's turn; by order of coming, what was preempted stands in front. Slots of one token, ten
    of them: H and A hold five each when H needs the sixth. B (5) and A (6) do not fit together.
    """
    scheduler = Scheduler(Limits(10, 1), policy, name_all=True)
    scheduler.add(Request("H", 0.0, prompt_tokens=4, output_tokens=4))
    scheduler.add(Request("A", 1.0, prompt_tokens=4, output_tokens=4))
    preempted, admitted = [], []
    for step in range(6):
        batch = scheduler.plan(float(step))
        preempted += [request.id for request in batch.preempted]
        admitted += [request.id for request in batch.admitted]
        scheduler.commit(step + 1.0)
        if step == 0:
            scheduler.add(Request("B", 0.5, prompt_tokens=5, output_tokens=1))
    assert preempted == ["A"]
    assert admitted[:3] == ["H", "A", first]
