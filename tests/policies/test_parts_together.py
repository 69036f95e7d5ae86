"""Policies put together from parts: who is told what, what the whole declares, and random combinations under pressure."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.fcfs import Fcfs
from policies.last import Last
from policies.max_util import MaxUtil
from policies.no_evict import NoEvict
from policies.past_future import PastFuture
from policies.reserve_ratio import ReserveRatio
from policies.watermark import Watermark
from tests.core.drive import Drive
from tests.policies.test_parts import AtMost, First, Says, small_setup
from tests.sim.cases import Case, cases, difference
from twin.core import PolicyError, Request
from twin.policies_registry import find
from twin.policy import Policy
from twin.policy_parts import combined
from twin.sim.simulation import Simulation

# --- who is told


class Told(Policy):
    """Writes down what it is told, in a list that others may share; has the hooks of all roles."""

    def __init__(self, name: str, told: list[tuple[str, str]]) -> None:
        self.name, self.told = name, told

    def admit(self, request, view):
        return True

    def victim(self, running, view):
        return running[-1]

    def mode(self, request, view):
        return "recompute"

    def on_arrival(self, request, view):
        self.told.append((self.name, f"{request.id} arrives"))

    def on_wait(self, request, view):
        self.told.append((self.name, f"{request.id} waits"))

    def on_plan(self, view):
        self.told.append((self.name, f"plan {view.plan_number}"))

    def on_admit(self, request, view):
        self.told.append((self.name, f"{request.id} comes in"))

    def on_preempt(self, request, mode, view):
        self.told.append((self.name, f"{request.id} goes, {mode}"))

    def on_step(self, view, batch, k):
        self.told.append((self.name, f"{k} step, {sum(batch.by_user.values())} tokens"))

    def on_finish(self, request, view):
        self.told.append((self.name, f"{request.id} ends"))


def test_main_policy_and_parts_are_told_of_everything_in_this_order_and_once_whatever_their_roles():
    """Two blocks of 4: when a and b have filled theirs, b goes, and comes back when a has ended."""
    told: list[tuple[str, str]] = []
    part, victim = Told("part", told), Told("victim", told)
    policy = combined(Told("main", told), {"admission": part, "victim": victim, "preemption_mode": part})
    Drive(Request("a", 0, 4, 2), Request("b", 0, 4, 2), policy=policy, num_blocks=2, block_size=4).drain()
    by_name = {name: [what for who, what in told if who == name] for name in ("main", "part", "victim")}
    assert by_name["part"] == by_name["main"] == by_name["victim"]
    assert [name for name, _ in told] == ["main", "part", "victim"] * (len(told) // 3)
    main = by_name["main"]
    assert sorted(main[9:11]) == ["b goes, recompute", "b waits"]
    assert main[:9] + main[11:] == [
        "a arrives", "a waits", "b arrives", "b waits",
        "plan 1", "a comes in", "b comes in", "1 step, 2 tokens",
        "plan 2", "1 step, 1 tokens", "a ends",
        "plan 3", "b comes in", "1 step, 1 tokens", "b ends",
    ]  # fmt: skip


def test_a_pause_is_a_preemption_to_whom_it_is_not_told_as_what_it_is():
    """As the core does with a policy that has no `on_pause`; and only of whom had a seat."""
    told: list[tuple[str, str]] = []

    class Pauses(Policy):
        def pause(self, request, view):
            return "keep"

        def on_pause(self, request, view):
            told.append(("part", f"{request.id} pauses"))

    whole = combined(Told("main", told), {"pause": Pauses()})
    assert whole.pause(None, None) == "keep"
    a = type("View", (), {"id": "a", "host_blocks": 0, "blocks": 3})()
    whole.on_admit(a, None)
    whole.on_pause(a, None)
    assert told[1:] == [("main", "a goes, keep"), ("part", "a pauses")]
    for blocks, host_blocks, mode in ((3, 2, "swap"), (0, 0, "recompute")):
        a.blocks, a.host_blocks = blocks, host_blocks
        whole.on_admit(a, None)
        whole.on_pause(a, None)
        assert told[-2:] == [("main", f"a goes, {mode}"), ("part", "a pauses")]
    whole.on_admit(a, None)
    whole.on_preempt(a, "swap", None)
    del told[:]
    whole.on_pause(a, None)  # its last token came when its seat was gone already
    assert told == [("part", "a pauses")]
    assert combined(Told("main", told), {"victim": Last()}).on_pause is None


def test_a_part_that_raises_is_named_with_its_line():
    class Broken(Policy):
        def admit(self, request, view):
            raise KeyError("oh")

    setup, trace = small_setup(combined(Fcfs(), {"admission": Broken()}))
    with pytest.raises(
        PolicyError, match=r"policy Fcfs\+Broken, plan 1 .*: test_parts_together.py:\d+ raised KeyError: 'oh'"
    ):
        Simulation(setup, trace).run()


# --- what the whole declares


def test_without_parts_the_policy_stays_what_it_is():
    main = Fcfs()
    assert combined(main, {}) is main and combined(main, {"victim": None}) is main


def test_order_and_what_goes_with_it_are_the_main_policys_alone():
    class Main(Policy):
        dynamic, group, preempts, allocator = True, "user", True, "contiguous"

        def order(self, request, view):
            return request.priority

    class Part(Policy):
        dynamic, group, preempts = False, "session", False

        def order(self, request, view):
            return 0

        def chunk(self, request, offered, view):
            return 1

        def admit(self, request, view):
            return True

    whole = combined(Main(), {"admission": Part()})
    assert (whole.dynamic, whole.group, whole.preempts, whole.allocator) == (True, "user", True, "contiguous")
    assert whole.order(SimpleNamespace(priority=7), None) == 7 and whole.chunk is None
    other = combined(Part(), {"admission": Says(True)})
    assert (other.dynamic, other.group, other.preempts, other.allocator) == (False, "session", False, "paged")


def test_a_plan_is_as_steady_as_the_least_steady_of_all():
    class Steady(Says):
        steady_for = 0

        def steady_steps(self, view):
            return self.steady_for

        def steady_until(self, view):
            return self.steady_for / 10

    main, part = Steady(True), Steady(True)
    main.steady_for, part.steady_for = 7, 4
    whole = combined(main, {"admission": part})
    assert (whole.steady, whole.steady_steps(None), whole.steady_until(None)) == (True, 4, 0.4)
    main.steady_for = 3
    assert (whole.steady_steps(None), whole.steady_until(None)) == (3, 0.3)
    part.steady = False
    assert not whole.steady
    part.steady, main.steady = True, False
    assert not whole.steady
    assert combined(Fcfs(), {"admission": Says(True)}).steady_steps is None


def test_of_a_preemptive_order_that_says_nothing_no_steadiness_is_believed():
    class Silent(Policy):
        preempts = True

        def order(self, request, view):
            return request.generated

    class Declared(Silent):
        steady = True

    assert combined(Silent(), {"victim": First()}).steady_steps(None) == 0
    assert combined(Declared(), {"victim": First()}).steady_steps is None


def test_a_prediction_is_needed_if_anyone_needs_it():
    assert not combined(Fcfs(), {"victim": Last()}).needs_prediction
    assert combined(Fcfs(), {"victim": find("most_remaining").policy()}).needs_prediction
    setup, trace = small_setup(combined(Fcfs(), {"victim": find("most_remaining").policy()}, {"victim": "most_remaining"}))
    with pytest.raises(ValueError, match="policy.victim=most_remaining needs predicted output lengths"):
        Simulation(setup, trace)


# --- any combination, under random pressure

ADMISSIONS: list[Callable[[], Policy]] = [
    lambda: AtMost(3), lambda: Watermark(0.2), NoEvict, MaxUtil, lambda: PastFuture(window=5),
    lambda: ReserveRatio(decay_steps=40),
]  # fmt: skip


@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.sampled_from(ADMISSIONS))
def test_every_way_through_a_run_has_the_same_outcome(case: Case, admission: Callable[[], Policy]) -> None:
    def run(**how):
        parts = {role: find(name).policy() for role, name in case.parts.items()}
        policy = combined(case.policy(), parts | {"admission": admission()})
        return Simulation(replace(case.setup(), policy=policy), case.trace, **how).run()

    forward = run()
    assert forward.complete and "unfinished" not in forward.requests["status"]
    assert difference(run(step_by_step=True, literal=True), forward) is None
    assert difference(run(step_by_step=True), forward) is None
