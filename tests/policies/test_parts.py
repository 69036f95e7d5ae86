"""Policies put together from parts: whose hook decides."""

from types import SimpleNamespace

import numpy as np
import pytest

from policies.fcfs import Fcfs
from policies.last import Last
from policies.prefill_first import PrefillFirst
from policies.sarathi import Sarathi
from tests.core.drive import Drive, finished_with
from tests.policies.scenarios import played, request, scheduled
from traces.trace import Trace
from twin.core import Limits, PolicyError, Request
from twin.latency.linear import LinearLatency
from twin.policies_registry import find
from twin.policy import ADMIT, LATER, NEVER, Policy
from twin.policy_parts import combined
from twin.sim.simulation import Setup


class AtMost(Policy):
    """An admission part: so many run at most, and no prompt above 50 tokens ever."""

    def __init__(self, seats: int) -> None:
        self.seats = seats

    def admit(self, request, view):
        if request.prompt_tokens > 50:
            return NEVER
        return ADMIT if view.num_running < self.seats else LATER


class First(Policy):
    """A victim part: the first admitted."""

    def victim(self, running, view):
        return running[0]


class Swaps(Policy):
    """A mode part: to the host, always."""

    def mode(self, request, view):
        return "swap"


def small_setup(policy: Policy) -> tuple[Setup, Trace]:
    trace = Trace("two", np.array([0.0, 1.0]), np.array([4, 4]), np.array([2, 2]))
    return Setup(Limits(num_blocks=9), policy, LinearLatency(base_s=1.0)), trace


# --- victims


def running(**requests):
    """By name: computed, generated, prompt_tokens, predicted_output, priority, arrival_s."""
    names = ("computed", "generated", "prompt_tokens", "predicted_output", "priority", "arrival_s")
    return [SimpleNamespace(id=name, **dict(zip(names, values, strict=True))) for name, values in requests.items()]


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        ("last", "d"),
        ("longest", "d"),  # 30 tokens like a, and admitted later
        ("least_computed", "c"),  # 12 like b
        ("most_remaining", "c"),  # 20 - 3 = 17 like b
        ("lowest_priority", "b"),  # (1, 2.0) like c: vLLM takes the first of the list
        ("fewest_outputs", "b"),  # 3 like c, and the longer prompt
        ("latest_arrival", "c"),  # 2.0 s like b
    ],
)
def test_whom_each_rule_chooses_and_whom_of_equals(rule, chosen):
    four = running(a=(30, 5, 26, 9, 0, 1.0), b=(12, 3, 10, 20, 1, 2.0), c=(12, 3, 8, 20, 1, 2.0), d=(30, 7, 24, 8, 0, 0.5))
    assert find(rule).policy().victim(four, None).id == chosen


def test_the_victim_is_the_parts_choice_and_not_the_main_policys():
    """By hand: a, b and c hold all three blocks of 4; a needs a second one."""

    def first_victim(policy: Policy) -> str:
        drive = Drive(*(Request(name, 0, 4, 9) for name in "abc"), policy=policy, num_blocks=3, block_size=4)
        drive.step()
        return next(iter(drive.step().preempted))

    assert first_victim(First()) == "a"
    assert first_victim(combined(First(), {"victim": Last()})) == "c"
    assert first_victim(combined(Fcfs(), {"victim": First()})) == "a"


# --- modes


class BySize(Policy):
    """A mode part: the small ones are computed again, the others swapped."""

    def mode(self, request, view):
        return "recompute" if request.computed < 5 else "swap"


@pytest.mark.parametrize(("tokens", "mode"), [(4, "recompute"), (8, "swap")])
def test_the_mode_of_a_preemption_is_the_parts(tokens, mode):
    two = [Request(name, 0, tokens, 5) for name in "ab"]
    policy = combined(Fcfs(), {"preemption_mode": BySize()})
    drive = Drive(*two, policy=policy, num_blocks=tokens // 2, block_size=4, num_host_blocks=9)
    drive.step()
    assert drive.step().preempted == {"b": mode}


# --- admission


class Says(Policy):
    """Always the same answer; counts how often it was asked."""

    def __init__(self, answer: object) -> None:
        self.answer, self.asked = answer, 0

    def admit(self, request, view):
        self.asked += 1
        return self.answer


@pytest.mark.parametrize(
    ("main", "part", "together", "part_asked"),
    [
        (ADMIT, ADMIT, ADMIT, 1),
        (ADMIT, LATER, LATER, 1),
        (ADMIT, NEVER, NEVER, 1),
        (True, False, LATER, 1),
        (LATER, ADMIT, LATER, 0),
        (LATER, NEVER, LATER, 0),
        (NEVER, ADMIT, NEVER, 0),
        (False, True, LATER, 0),
    ],
)
def test_both_must_admit_and_the_part_is_not_asked_after_a_refusal(main, part, together, part_asked):
    one, other = Says(main), Says(part)
    assert combined(one, {"admission": other}).admit(None, SimpleNamespace(plan_number=1)) == together
    assert (one.asked, other.asked) == (1, part_asked)


def test_an_admission_part_keeps_the_head_waiting():
    """Slots of one token, ten of them, half of them kept free: B needs 3 of the 7 that A leaves."""
    policy = {"name": "fcfs", "admission": "watermark(share=0.5)"}
    steps, _ = played(policy, [request("A", 3, 2), request("B", 3, 2)], 10, 1)
    assert scheduled(steps) == [{"A": 3}, {"A": 1}, {"B": 3}, {"B": 1}]
    steps, _ = played("fcfs", [request("A", 3, 2), request("B", 3, 2)], 10, 1)
    assert scheduled(steps) == [{"A": 3, "B": 3}, {"A": 1, "B": 1}]


@pytest.mark.parametrize("main", [Fcfs, Sarathi, PrefillFirst])
def test_a_plan_of_the_policys_own_asks_the_admission_part_too(main):
    """At most two at once, though blocks and seats are there for all; and never a prompt above 50 tokens."""
    four = [Request(name, 0, tokens, 3) for name, tokens in (("a", 4), ("b", 60), ("c", 4), ("d", 4))]
    drive = Drive(*four, policy=combined(main(), {"admission": AtMost(2)}), num_blocks=99, block_size=4)
    steps = drive.drain()
    assert max(len(step.scheduled) for step in steps) == 2
    assert [name for step in steps for name in step.admitted] == ["a", "c", "d"]
    a, b, c, d = four
    assert b.state == "rejected" and b.reason == f"policy {main.__name__}+AtMost answered NEVER"
    assert finished_with(a, 3) and finished_with(c, 3) and finished_with(d, 3)


def test_a_part_may_not_refuse_for_ever_whom_it_has_let_in():
    class Once(Policy):
        def admit(self, request, view):
            return ADMIT if not request.preemptions else NEVER

    for main in (Fcfs(), PrefillFirst()):
        policy = combined(main, {"admission": Once(), "preemption_mode": Swaps()})
        two = [Request(name, 0, 4, 5) for name in "ab"]
        drive = Drive(*two, policy=policy, num_blocks=2, block_size=4, num_host_blocks=9)
        with pytest.raises(PolicyError, match=r"admit\(\) answered NEVER for request b, which has run already"):
            drive.drain()
