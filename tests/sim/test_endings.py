"""How a run ends when it does not come to its end: policies that fail, stalls, interruptions, time limits."""

from collections.abc import Callable

import numpy as np
import pytest

from policies.fcfs import Fcfs
from traces.trace import Trace
from twin.core import IllegalPlan, Limits, PolicyError, Rules, Stall
from twin.latency.linear import LinearLatency
from twin.policy import ADMIT, LATER, NEVER, Plan, Policy
from twin.predictors.oracle import Oracle
from twin.results.record import Record
from twin.sim import Outcome, Setup, simulate

TRACE = Trace("three", np.array([0.0, 0.0, 5.0]), np.full(3, 8), np.array([3, 20, 20]))


def setup(policy: Policy, asynchronous: bool = False) -> Setup:
    return Setup(
        Limits(num_blocks=99),
        policy,
        LinearLatency(base_s=1.0),
        Rules(async_scheduling=asynchronous),
        predictor=Oracle(),
    )


def partial(error: pytest.ExceptionInfo[PolicyError]) -> Outcome:
    record = error.value.record
    assert isinstance(record, Outcome) and not record.complete and str(error.value) in record.notes
    Record(**vars(record)).check()
    return record


class RaisesAtFive(Policy):
    steady = False

    def on_step(self, view, batch, k):
        if view.now > 5:
            return {}["nothing"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_policy_that_raises_is_named_with_line_and_state_and_the_results_so_far_are_kept(asynchronous: bool) -> None:
    with pytest.raises(
        PolicyError, match="policy RaisesAtFive, plan .* 2 running, 0 waiting, .* test_endings.py:.* raised KeyError"
    ) as error:
        simulate(setup(RaisesAtFive(), asynchronous), TRACE)
    assert "\n" not in str(error.value)
    requests = partial(error).requests
    assert requests["status"] == ["finished", "unfinished", "unfinished"]
    assert requests["finish_s"][0] == 3.0


def hook_that_raises(hook: str, dynamic: bool) -> Policy:
    def fail(self, *arguments):
        raise RuntimeError("out of order")

    return type("Failing", (Policy,), {hook: fail, "dynamic": dynamic})()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "hook", ["order", "pick", "admit", "chunk", "on_arrival", "on_admit", "on_step", "on_finish", "schedule"]
)
def test_whatever_hook_raises(hook: str, dynamic: bool) -> None:
    with pytest.raises(
        PolicyError, match="policy Failing, .* test_endings.py:.* raised RuntimeError: out of order"
    ) as error:
        simulate(setup(hook_that_raises(hook, dynamic)), TRACE)
    partial(error)


class Never(Policy):
    def admit(self, request, view):
        return LATER


class Nothing(Policy):
    def schedule(self, view):
        return Plan(view)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("policy", [Never, Nothing])
def test_a_stall_names_the_state(policy: type[Policy], asynchronous: bool) -> None:
    with pytest.raises(Stall) as error:
        simulate(setup(policy(), asynchronous), TRACE)
    message = str(error.value)
    assert f"policy {policy.__name__}, plan " in message
    assert "at 5 s, 0 running, 3 waiting, 0 swapped, 99 of 99 blocks free" in message
    assert "the head of the queue is 0 with 8 tokens" in message
    assert "requests wait, nothing is scheduled and no event is due" in message
    assert partial(error).requests["status"] == ["unfinished"] * 3


class TakesTooMuch(Policy):
    def schedule(self, view):
        plan = Plan(view)
        for request in (*view.running, *view.waiting):
            plan.take(request, 8)
        return plan


class NoPlan(Policy):
    def schedule(self, view):
        return None


@pytest.mark.parametrize(
    "policy, rule", [(TakesTooMuch, "no more than what is pending: 8 > 1"), (NoPlan, "must return a Plan")]
)
def test_an_illegal_plan_names_the_rule(policy: type[Policy], rule: str) -> None:
    with pytest.raises(IllegalPlan, match=f"policy {policy.__name__}, plan .*{rule}") as error:
        simulate(setup(policy()), TRACE)
    partial(error)


class Interrupted(Policy):
    steady = False

    def on_step(self, view, batch, k):
        if view.now > 5:
            raise KeyboardInterrupt


def test_ctrl_c_gives_the_results_so_far() -> None:
    outcome = simulate(setup(Interrupted()), TRACE)
    assert not outcome.complete and outcome.notes == ["interrupted: these are the results so far"]
    assert outcome.requests["status"] == ["finished", "unfinished", "unfinished"]
    Record(**vars(outcome)).check()


def long_trace() -> Trace:
    return Trace("long", np.arange(2000.0), np.full(2000, 8), np.full(2000, 3))


def test_progress_is_told_and_may_interrupt() -> None:
    told: list[tuple[int, float]] = []

    def progress(ended: int, now_s: float) -> None:
        told.append((ended, now_s))
        if len(told) == 3:
            raise KeyboardInterrupt

    outcome = simulate(setup(Fcfs()), long_trace(), progress=progress)
    assert not outcome.complete
    assert told == sorted(told) and 0 < told[-1][0] < 2000
    assert outcome.requests["status"].count("finished") == told[-1][0]


def test_a_time_limit() -> None:
    outcome = simulate(setup(Fcfs()), long_trace(), max_wall_s=0)
    assert not outcome.complete
    assert outcome.notes == ["stopped after simulate.max_wall_s=0 seconds: these are the results so far"]


def test_preemptions_without_end_are_a_stall() -> None:
    """An order that always prefers whoever waits: the two take each other's seat, and no prompt is ever computed whole."""

    class Rude(Policy):
        preempts, dynamic, steady = True, True, False

        def order(self, request, view):
            return request.state == "running"

    limits = Limits(num_blocks=99, max_num_seqs=1, max_num_batched_tokens=4)
    with pytest.raises(Stall, match="preemptions in a row, and not one token came"):
        simulate(Setup(limits, Rude(), LinearLatency(base_s=1.0)), TRACE)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda policy, rules: setattr(policy, "needs_prediction", True), "policy Policy needs predicted output lengths"),
        (lambda policy, rules: rules.update(preempt_for_seat=True), "preempt_for_seat needs a policy with an order"),
        (lambda policy, rules: rules.update(allocator="contiguous"), "set cache.enable_prefix_caching=false"),
    ],
)
def test_what_does_not_go_together_is_refused_before_it_runs(change: Callable, message: str) -> None:
    policy, rules = Policy(), dict[str, object]()
    change(policy, rules)
    limits = Limits(num_blocks=99, enable_prefix_caching=True)
    with pytest.raises(ValueError, match=message):
        simulate(Setup(limits, policy, LinearLatency(base_s=1.0), Rules(**rules)), TRACE)  # type: ignore[arg-type]


class NeverLong(Policy):
    def admit(self, request, view):
        return ADMIT if request.prompt_tokens <= 8 else NEVER


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("prompts", [[8, 20], [20, 8], [20, 20]])
def test_a_run_whose_last_request_is_refused_for_good_is_complete(asynchronous: bool, prompts: list[int]) -> None:
    trace = Trace("two", np.array([0.0, 100.0]), np.array(prompts), np.array([2, 2]))
    outcome = simulate(setup(NeverLong(), asynchronous), trace)
    assert outcome.complete
    assert outcome.requests["status"] == ["finished" if prompt == 8 else "rejected" for prompt in prompts]


class Leaves(Policy):
    def on_arrival(self, request, view):
        raise SystemExit(3)


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Speechless(Policy):
    def on_arrival(self, request, view):
        raise Unspeakable


class Talks(Policy):
    def on_arrival(self, request, view):
        raise ValueError("two\nlines " + "and more " * 1000)


@pytest.mark.parametrize(
    "policy, words",
    [
        (Leaves, "raised SystemExit: 3"),
        (Speechless, r"raised Unspeakable: \(its message cannot be shown: RuntimeError\)"),
        (Talks, "raised ValueError: two lines and more"),
    ],
)
def test_whatever_a_policy_raises_is_one_line_and_the_results_so_far_are_kept(policy: type[Policy], words: str) -> None:
    with pytest.raises(PolicyError, match=words) as error:
        simulate(setup(policy()), TRACE)
    assert "\n" not in str(error.value) and len(str(error.value)) < 600
    assert partial(error).requests["status"] == ["unfinished"] * 3


class Arrays(Policy):
    def order(self, request, view):
        return np.array([1, 2])


def test_keys_without_an_order_are_the_policys_error() -> None:
    with pytest.raises(PolicyError, match="order\\(\\) returned .*: keys must compare"):
        simulate(setup(Arrays()), TRACE)


def test_rejections_are_noted_with_their_number_and_the_first_reason() -> None:
    trace = Trace(
        "long", np.array([0.0, 0.0, 1.0]), np.array([8, 500, 900]), np.array([2, 2, 2]), request_id=["a", "b", "c"]
    )
    assert simulate(setup(Policy()), trace).notes == []
    few = Setup(Limits(num_blocks=30), Policy(), LinearLatency(base_s=1.0))
    assert simulate(few, trace).notes == [
        "2 of 3 requests were rejected, first b: 501 tokens need 32 blocks, num_gpu_blocks=30"
    ]
