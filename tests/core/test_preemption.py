"""Whose blocks are taken, how many victims it needs, and what they lose."""

from typing import Any

import pytest

from policies.least_computed import LeastComputed
from policies.lowest_priority import LowestPriority
from tests.core.drive import Drive, finished_with, scheduled
from twin.core import InvalidTransition, PolicyError, Request, Rules
from twin.policies_registry import find
from twin.policy import Plan, Policy


def test_two_requests_that_fit_only_one_after_the_other() -> None:
    """live-04, by hand: each alone needs 3 of the 4 blocks, together they have 8 tokens of room each."""
    a, b = Request("a", 0, 7, 6), Request("b", 0, 7, 6)
    drive = Drive(a, b, num_blocks=4, block_size=4)
    steps = drive.drain()
    assert scheduled(steps) == [
        {"a": 7, "b": 7}, {"a": 1, "b": 1}, {"a": 1}, {"a": 1}, {"a": 1}, {"a": 1}, {"b": 9}, {"b": 1}, {"b": 1}, {"b": 1},
    ]  # fmt: skip
    assert [step.preempted for step in steps if step.preempted] == [steps[2].preempted] == [{"b": "recompute"}]
    assert (a.finish_s, b.finish_s) == (6.0, 10.0)
    assert (b.preemptions, b.recomputed_tokens) == (1, 8)
    assert finished_with(a, 6) and finished_with(b, 6)


def four_of_whom_one_needs_a_block(**rules: Any) -> tuple[Drive, list[Request]]:
    """8 blocks of 4: "a" has filled its two, the three others have not."""
    requests = [Request("a", 0, 8, 4), *(Request(name, 0, 5, 3) for name in "bcd")]
    return Drive(*requests, rules=Rules(**rules), num_blocks=8, block_size=4), requests


def test_one_victim_is_enough_for_one_block() -> None:
    """live-09: its blocks are free at once."""
    drive, _ = four_of_whom_one_needs_a_block()
    first, second = drive.steps(2)
    assert first.preempted == {} and second.preempted == {"d": "recompute"}
    assert second.scheduled == {"a": 1, "b": 1, "c": 1}


def test_one_victim_is_enough_while_a_step_is_in_flight() -> None:
    """live-09, asynchronous"""
    drive, requests = four_of_whom_one_needs_a_block(async_scheduling=True)
    drive.scheduler.plan(0.0)
    second = drive.scheduler.plan(0.0)
    assert list(second.preempted) == [requests[3]]


def test_the_last_admitted_goes_first() -> None:
    """pri-05"""
    requests = [Request(name, arrival_s, 4, 9) for arrival_s, name in enumerate("abc")]
    drive = Drive(*requests, num_blocks=3, block_size=4)
    drive.step()
    assert list(drive.step().preempted) == ["c", "b"]  # a needs a block, and c's one is enough; then b needs one


@pytest.mark.parametrize(
    "victim, name",
    [("last", "a"), ("longest", "a"), ("least_computed", "b"), ("most_remaining", "b"), ("lowest_priority", "a")],
)
def test_choices_of_victim(victim: str, name: str) -> None:
    """pri-06: b, 100 tokens, was admitted before a, 8,000 tokens, which needs a block."""
    b = Request("b", 0, 100, 90, predicted_output=90)
    a = Request("a", 1, 8000, 9, predicted_output=9, priority=1)
    drive = Drive(b, a, policy=find(victim).policy(), num_blocks=507, block_size=16)
    drive.step()
    assert list(drive.step().preempted) == [name]


def test_equal_priority_and_arrival_the_first_of_the_list_goes() -> None:
    """vLLM 0.32 to the letter: max() over the running list returns the first of equals."""
    requests = [Request(name, 0, 4, 9) for name in "abc"]
    drive = Drive(*requests, policy=LowestPriority(), num_blocks=3, block_size=4)
    drive.step()
    assert next(iter(drive.step().preempted)) == "a"


def test_a_victim_that_the_policy_made_up_is_refused() -> None:
    class Confused(Policy):
        def victim(self, running, view):
            return None

    drive = Drive(Request("a", 0, 4, 4), Request("b", 0, 4, 4), policy=Confused(), num_blocks=2, block_size=4)
    drive.step()
    with pytest.raises(PolicyError, match=r"victim\(\) chose None, which is not one of the running requests"):
        drive.step()


def test_a_victim_gives_back_the_tokens_of_this_step() -> None:
    """c's chunk of 2 goes back to the budget of 4, or b's decode would be the only other one in that step."""
    requests = [Request("a", 0, 4, 5), Request("b", 0, 3, 5)]
    drive = Drive(*requests, policy=LeastComputed(), num_blocks=2, block_size=4, max_num_batched_tokens=7)
    drive.step()
    step = drive.step()  # a needs a block: b, the least computed, gives up the one it has
    assert step.preempted == {"b": "recompute"} and step.scheduled == {"a": 1}
    drive.drain()


def test_a_plan_that_preempts_and_schedules_nobody_takes_no_time() -> None:
    """The only running request is its own victim."""
    a = Request("a", 0, 4, 4)
    drive = Drive(a, num_blocks=2, block_size=4)
    drive.step()
    drive.pool.take(1)  # somebody else's
    drive.state.table_blocks += 1
    batch = drive.scheduler.plan(1.0)
    assert batch.empty and list(batch.preempted) == [a] and a.state == "waiting"


def test_a_preempted_request_cannot_be_preempted_again() -> None:
    """live-15: a policy pauses the same request in two plans in a row."""

    class Pauses(Policy):
        paused = None

        def schedule(self, view):
            plan = Plan(view)
            if self.paused is None and view.running:
                self.paused = view.running[0]
            if self.paused is not None:
                plan.preempt(self.paused)
            for request in view.waiting:
                if request is not self.paused:
                    plan.take(request)
            return plan

    drive = Drive(Request("a", 0, 4, 4), Request("b", 0, 4, 4), policy=Pauses(), num_blocks=8, block_size=4)
    drive.step()
    drive.step()
    with pytest.raises(InvalidTransition, match="request a is waiting, not running: it cannot be preempted"):
        drive.step()
    drive.pool.check(drive.state.tables())


def test_decodes_of_unequal_length_run_together() -> None:
    """live-12: contexts of 120 and 50 tokens."""
    drive = Drive(Request("a", 0, 120, 9), Request("b", 0, 50, 9), num_blocks=99)
    assert scheduled(drive.drain())[1:] == [{"a": 1, "b": 1}] * 8


class Smallest(Policy):
    """Lowest priority value first, preemptive."""

    preempts = steady = True

    def order(self, request, view):
        return request.priority


def test_nobody_gives_up_blocks_for_a_head_that_lacks_budget() -> None:
    """Without chunked prefill: "a" decodes, so 19 of 20 tokens are left, and "b" needs 20 at once. Blocks are free."""
    a, b = Request("a", 0, 5, 3, priority=1), Request("b", 0, 20, 1, priority=0)
    drive = Drive(a, policy=Smallest(), num_blocks=99, max_num_batched_tokens=20, enable_chunked_prefill=False)
    first = drive.step()
    assert drive.scheduler.add(b) is None
    assert scheduled([first, *drive.drain()]) == [{"a": 5}, {"a": 1}, {"a": 1}, {"b": 20}]
    assert a.preemptions == 0


PREFIX = ["k0", "k1", "k2"]


def lender_and_sharer() -> tuple[Request, Request, Request]:
    """Blocks of 4, 5 of them, 10 tokens a step. In step 2 "a" fills its third block, which "b" shares; "c" lacks a block."""
    a = Request("a", 0, 14, 3, priority=3, block_keys=PREFIX)
    b = Request("b", 0, 14, 1, priority=1, block_keys=PREFIX)
    return a, b, Request("c", 0, 3, 2, priority=2)


def test_who_computes_in_this_step_what_a_newcomer_shares_is_not_preempted_in_it() -> None:
    """Else "b" would count on 4 tokens that nobody computes. A step later "a" has computed them, and may go."""
    a, b, c = lender_and_sharer()
    drive = Drive(a, policy=Smallest(), num_blocks=5, block_size=4, max_num_batched_tokens=10, enable_prefix_caching=True)
    first = drive.step()
    for request in (b, c):
        assert drive.scheduler.add(request) is None
    second = drive.step()
    assert (first.scheduled, second.scheduled, second.preempted) == ({"a": 10}, {"a": 4, "b": 2}, {})
    assert b.cached_tokens == 12 and finished_with(b, 1)
    assert drive.step().scheduled == {"a": 1, "c": 3}  # "b" has left a block
    drive.drain()
    assert finished_with(a, 3) and finished_with(c, 2)
