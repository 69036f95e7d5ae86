"""The order of those who run is kept from plan to plan: the same decisions, with few questions asked."""

from typing import Any

import pytest

from policies.las import Las
from tests.core.drive import Drive
from twin.core import Limits, Request, Scheduler
from twin.core.errors import PolicyError
from twin.policy import Policy


class Counted(Las):
    """Las that counts how often it is asked for a key."""

    def __init__(self) -> None:
        super().__init__(quantum_tokens=8)
        self.asked = 0

    def order(self, request: Any, view: Any) -> Any:
        self.asked += 1
        return super().order(request, view)


def test_a_refused_head_costs_as_many_questions_however_many_run() -> None:
    """All have had no quantum yet, so nobody gives way to the head, which has had none either."""

    def asked(running: int) -> int:
        policy = Counted()
        scheduler = Scheduler(Limits(10_000, max_num_seqs=running), policy)
        for number in range(running):
            scheduler.add(Request(f"r{number}", 0.0, 16, 100))
        for step in range(2):
            scheduler.plan(float(step))
            scheduler.commit(step + 1.0)
        scheduler.add(Request("first", 2.0, 16, 100))
        scheduler.plan(2.0)  # all that run are asked, once
        scheduler.commit(3.0)
        before = policy.asked
        scheduler.add(Request("second", 3.0, 16, 100))
        scheduler.plan(3.0)
        return policy.asked - before

    assert asked(4) == asked(100) < 10


def test_who_has_used_up_a_quantum_gives_way_to_a_newcomer_then_and_no_sooner() -> None:
    """One seat, a quantum of 3: A has its third token at 3 s, and B, which has had nothing, comes in with the next step."""
    drive = Drive(Request("A", 0.0, 4, 9), policy=Las(quantum_tokens=3), num_blocks=100, max_num_seqs=1)
    drive.step()
    drive.scheduler.add(Request("B", 1.0, 4, 3))
    steps = drive.steps(3)
    assert [list(step.preempted) for step in steps] == [[], [], ["A"]]
    assert steps[-1].admitted == ["B"]


def test_stretches_end_where_somebody_comes_to_stand_behind_the_head() -> None:
    """A has 1 of 5 tokens of its quantum when B comes: 4 steps more are certain, the one planned among them."""
    scheduler = Scheduler(Limits(100, max_num_seqs=1), Las(quantum_tokens=5))
    scheduler.add(Request("A", 0.0, 4, 50))
    scheduler.plan(0.0)
    scheduler.commit(1.0)
    scheduler.add(Request("B", 1.0, 4, 50))
    scheduler.plan(1.0)
    scheduler.commit(2.0)
    assert scheduler.horizon() == 3
    scheduler.advance(3, 5.0)
    assert scheduler.horizon() == 0
    assert [request.id for request in scheduler.plan(5.0).preempted] == ["A"]


class ByMark(Policy):
    """The order is what the test says."""

    preempts = True

    def __init__(self) -> None:
        self.marks: dict[str, int] = {}

    def order(self, request, view):
        return self.marks.get(request.id, 0)

    def key_steps(self, request, key, view):
        return 1 << 60


def test_a_key_that_changes_without_a_token_is_told_by_reorder() -> None:
    """Two seats. B gives way to C only when its key has been told to have grown."""
    policy = ByMark()
    drive = Drive(Request("A", 0, 4, 50), Request("B", 0, 4, 50), policy=policy, num_blocks=100, max_num_seqs=2)
    drive.steps(2)
    drive.scheduler.add(Request("C", 2.0, 4, 50))
    assert not drive.step().preempted
    policy.marks["B"] = 1
    view = drive.state.view
    view.reorder(next(request for request in view.running if request.id == "B"))
    assert list(drive.step().preempted) == ["B"]


def test_an_answer_that_is_no_number_is_an_error_by_name() -> None:
    class Wrong(ByMark):
        def key_steps(self, request, key, view):
            return None

    drive = Drive(Request("A", 0, 4, 50), policy=Wrong(), num_blocks=100, max_num_seqs=1)
    drive.step()
    drive.scheduler.add(Request("B", 1.0, 4, 50))
    with pytest.raises(PolicyError, match=r"key_steps\(\) must return a number of steps, not None"):
        drive.step()
