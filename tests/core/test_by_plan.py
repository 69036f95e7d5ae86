"""A policy that puts the whole step together: what `take` answers, and what is refused by name."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.core.drive import Drive, finished_with, scheduled
from twin.core import IllegalPlan, PolicyError, Request, Rules
from twin.policy import Plan, Policy


class Scripted(Policy):
    """Carries out one function a step."""

    def __init__(self, *script: Callable[[Plan, Any], Any]) -> None:
        self.script = list(script)
        self.seen: list[RequestLike] = []

    def schedule(self, view):
        self.seen += [request for request in view.waiting if request not in self.seen]
        plan = Plan(view)
        self.script.pop(0)(plan, view)
        return plan


RequestLike = Any


def take_all(plan: Plan, view: Any) -> None:
    for request in (*view.running, *view.waiting):
        plan.take(request)


def two_steps(second: Callable[[Plan, Any], Any], **limits: Any) -> Drive:
    """Two requests of one block each; the first step takes both in, the second is the script's."""
    requests = [Request("a", 0, 4, 2), Request("b", 0, 4, 9)]
    limits = dict(num_blocks=8, block_size=4) | limits
    drive = Drive(*requests, policy=Scripted(take_all, second, take_all), **limits)
    drive.step()
    return drive


@pytest.mark.parametrize(
    "deed, rule",
    [
        (
            lambda plan, view: [plan.take(view.running[0]) for _ in range(2)],
            "a plan may give tokens to a request once: a has 1",
        ),
        (lambda plan, view: plan.take(view.running[0], 2), "no more than what is pending: 2 > 1 for request a"),
        (lambda plan, view: plan.take(view.running[0], -1), "tokens must be a positive integer: -1 for request a"),
        (lambda plan, view: plan.take(view.running[0], 1.0), "tokens must be a positive integer: 1.0 for request a"),
    ],
)
def test_refused_by_name_of_rule(deed: Callable[[Plan, Any], Any], rule: str) -> None:
    drive = two_steps(deed)
    with pytest.raises(IllegalPlan, match=rule):
        drive.step()
    drive.pool.check(drive.state.tables())


def test_nobody_is_taken_who_has_ended() -> None:
    gone: list[Any] = []
    policy = Scripted(
        lambda plan, view: (gone.extend(view.waiting), take_all(plan, view)), lambda plan, view: plan.take(gone[0])
    )
    drive = Drive(Request("a", 0, 4, 1), policy=policy, num_blocks=8)
    drive.step()
    with pytest.raises(IllegalPlan, match="a request that is there: a is finished"):
        drive.step()


def test_nobody_is_preempted_in_the_plan_that_admits_it() -> None:
    def admit_and_preempt(plan: Plan, view: Any) -> None:
        (request,) = view.waiting
        plan.take(request)
        plan.preempt(request)

    drive = Drive(Request("a", 0, 4, 1), policy=Scripted(admit_and_preempt), num_blocks=8)
    with pytest.raises(IllegalPlan, match="a plan may not preempt whom it admits: request a"):
        drive.step()


def test_schedule_must_return_a_plan() -> None:
    class Forgets(Policy):
        def schedule(self, view):
            take_all(Plan(view), view)

    with pytest.raises(PolicyError, match=r"schedule\(\) must return a Plan, not None"):
        Drive(Request("a", 0, 4, 1), policy=Forgets(), num_blocks=8).step()


def test_take_says_no_where_blocks_do_not_suffice_and_changes_nothing() -> None:
    answers: list[bool] = []

    def second(plan: Plan, view: Any) -> None:
        budget, free = plan.budget, view.free_blocks
        answers.extend(plan.take(request) for request in view.running)
        assert (plan.budget, view.free_blocks) == (budget - 1, free - 1)

    assert two_steps(second, num_blocks=3).step().scheduled == {"a": 1}
    assert answers == [True, False]


def test_take_says_no_where_seats_or_budget_do_not_suffice() -> None:
    answers: list[bool] = []

    def first(plan: Plan, view: Any) -> None:
        answers.extend(plan.take(request, tokens) for request, tokens in zip(view.waiting, (6, 3, 2, 1), strict=True))

    requests = [Request(name, 0, 6, 1) for name in "abcd"]
    drive = Drive(*requests, policy=Scripted(first), num_blocks=99, max_num_batched_tokens=8, max_num_seqs=2)
    assert drive.step().scheduled == {"a": 6, "c": 2}
    assert answers == [True, False, True, False]  # b: 3 of 2 left; d: no budget, and no seat


def test_what_a_plan_preempts_returns_to_its_budget_and_its_pool() -> None:
    def second(plan: Plan, view: Any) -> None:
        a, b = view.running
        assert plan.take(b) and plan.budget == 7
        plan.preempt(b)
        assert plan.budget == 8 and plan.preempted and plan.empty
        assert b.state == "waiting" and not plan.take(b)  # not in the same plan
        assert plan.take(a) and plan.tokens == {a: 1}

    drive = two_steps(second, max_num_batched_tokens=8)
    step = drive.step()
    assert (step.scheduled, step.preempted) == ({"a": 1}, {"b": "recompute"})
    assert scheduled([drive.step()]) == [{"b": 5}]


def test_a_plan_may_leave_out_who_decodes() -> None:
    drive = two_steps(lambda plan, view: plan.take(view.running[1]))
    assert drive.step().scheduled == {"b": 1}
    assert drive.step().scheduled == {"a": 1, "b": 1}


def test_a_plan_may_take_anybody_of_the_queue() -> None:
    drive = Drive(
        Request("a", 0, 4, 1),
        Request("b", 0, 4, 1),
        policy=Scripted(lambda plan, view: plan.take(view.waiting[1])),
        num_blocks=8,
    )
    assert drive.step().scheduled == {"b": 4}


def test_a_mode_of_its_own() -> None:
    b: list[Request] = []

    def second(plan: Plan, view: Any) -> None:
        plan.preempt(view.running[1], "swap")

    drive = two_steps(second, num_host_blocks=1)
    b = list(drive.state.running)[1:]
    assert drive.step().preempted == {"b": "swap"}
    assert b[0].state == "swapped" and b[0].view.host_blocks == 1


def test_a_mode_that_does_not_exist_is_refused() -> None:
    drive = two_steps(lambda plan, view: plan.preempt(view.running[1], "drop"))
    with pytest.raises(PolicyError, match="drop"):
        drive.step()


def test_a_whole_plan_serves_all() -> None:
    requests = [Request(f"r{number}", 0, 5, 4) for number in range(5)]
    drive = Drive(*requests, policy=Scripted(*[take_all] * 9), rules=Rules(), num_blocks=99)
    drive.drain()
    assert all(finished_with(request, 4) for request in requests)


def test_all_decodes_are_taken_at_once_and_count_as_given() -> None:
    """Two requests of three tokens decode: two of the budget's tokens, a token each, and neither can be given another."""
    seen: list[Any] = []

    def second(plan: Plan, view: Any) -> None:
        before = plan.budget
        seen.extend([plan.take_decodes(), before - plan.budget, [*plan.tokens.values()], plan.empty, plan.take_decodes()])
        with pytest.raises(IllegalPlan, match="once: a has 1 already"):
            plan.take(view.running[0])
        plan.preempt(view.running[1], "recompute")
        seen.append(before - plan.budget)

    drive = two_steps(second)
    assert drive.step().scheduled == {"a": 1}
    assert seen == [True, 2, [1, 1], False, False, 1]


def test_what_a_plan_has_given_is_to_be_read() -> None:
    def write(plan: Plan, view: Any) -> None:
        plan.tokens[view.waiting[0]] = 4  # type: ignore[index]

    with pytest.raises(TypeError, match="does not support item assignment"):
        Drive(Request("a", 0, 4, 1), policy=Scripted(write), num_blocks=8).step()


class AdmitsThenPreempts(Policy):
    """Takes all, in order of arrival, and then preempts the first."""

    def schedule(self, view):
        plan = Plan(view)
        take_all(plan, view)
        if len(view.running) > 1:
            plan.preempt(view.running[0])
        return plan


def test_who_computes_what_a_newcomer_of_the_plan_shares_is_not_preempted_in_it():
    """Blocks of 4: in step 2 "a" fills its third block, which "b" shares; without it 4 tokens of "b" would be missing."""
    a, b = (Request(name, 0, 14, 3, block_keys=["k0", "k1", "k2"]) for name in "ab")
    drive = Drive(
        a, policy=AdmitsThenPreempts(), num_blocks=9, block_size=4, max_num_batched_tokens=10, enable_prefix_caching=True
    )
    assert drive.step().scheduled == {"a": 10}
    assert drive.scheduler.add(b) is None
    with pytest.raises(IllegalPlan, match="may not preempt who computes.*shares: request a; preempt before you admit"):
        drive.step()
