"""Andes' choices, by hand: steps of one second, readers of one token in ten seconds unless said otherwise."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from policies.andes import Andes
from tests.policies.scenarios import played, request, scheduled
from tests.sim.cases import Case, cases, difference
from tests.sim.test_shipped_policies import adapted
from twin.sim.simulation import Simulation

SLOW = {"reading_tokens_per_s": 0.1, "ttft_s": 1.0, "horizon_s": 10.0, "interval_s": 1.0}


def with_slow_readers(requests: list[dict[str, Any]], seats: int = 1, blocks: int = 100, **parameters: Any):
    return played({"name": "andes", **SLOW, **parameters}, requests, blocks, max_num_seqs=seats)


def who(steps: list[dict[str, Any]]) -> str:
    return "".join(name for step in scheduled(steps) for name in step)


def gain(age_s: float, generated: int = 0, read: float | None = None) -> float:
    """Of a request in the default setting: a first token after one second, then 4.8 a second, ten seconds ahead."""
    policy, seen = Andes(), Seen(arrival_s=0.0, generated=generated)
    if read is not None:
        policy.read = {seen: (age_s, read)}  # type: ignore[dict-item]
    return policy.gain(seen, SimpleNamespace(now=age_s))


class Seen(SimpleNamespace):
    """A request, as far as `gain` looks at it."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_who_has_just_come_would_lose_all_by_waiting():
    """Expected at the end of the horizon: nine seconds of text; if not served: none of it."""
    assert gain(age_s=0.0) == pytest.approx(1.0)


def test_who_has_waited_for_long_has_less_left_to_lose():
    """At 5 s: expected is the triangle of 14 s, that of the next 10 s could be read: (10 / 14)²."""
    assert gain(age_s=5.0) == pytest.approx((10 / 14) ** 2)


def test_text_to_read_makes_waiting_cheap():
    """48 tokens, 24 read: text for five seconds, so that the last five of the horizon are lost; with 72: nothing is."""
    assert gain(age_s=6.0, generated=48, read=24.0) == pytest.approx((5 / 15) ** 2)
    assert gain(age_s=6.0, generated=72, read=24.0) == 0


def test_who_has_text_left_gives_its_seat_to_a_newcomer_and_comes_back():
    """A token a second, read at a tenth of that: at 3 s A has three, of which 2.7 are unread, for 27 s. B has that much
    too after three seconds."""
    steps, summary = with_slow_readers([request("A", 1, 9), request("B", 1, 4, 3)])
    assert who(steps)[:4] == "AAAB"
    assert steps[3]["preempted"] == {"A": "recompute"}
    assert summary["requests"]["B"]["first_token_s"] == 4
    assert {name: done["status"] for name, done in summary["requests"].items()} == {"A": "finished", "B": "finished"}


def test_nobody_is_taken_off_more_often_than_is_allowed():
    steps, _ = with_slow_readers([request("A", 1, 6), request("B", 1, 4, 3)], max_preemptions=0)
    assert who(steps) == "AAAAAA" + "BBBB"
    requests = [request(name, 1, 8, arrival) for arrival, name in enumerate("ABCDEFGH")]
    _, summary = with_slow_readers(requests, seats=2, max_preemptions=2)
    preemptions = [done["preemptions"] for done in summary["requests"].values()]
    assert max(preemptions) == 2


def test_the_batch_is_chosen_anew_at_intervals():
    """The first choice is at 0 s, when A comes; the next is due 5 s later."""
    steps, _ = with_slow_readers([request("A", 1, 9), request("B", 1, 4, 3)], interval_s=5.0)
    assert who(steps)[:6] == "AAAAAB"


def test_the_shorter_context_goes_first_at_equal_gains():
    steps, _ = with_slow_readers([request("A", 100, 2), request("B", 10, 2)])
    assert who(steps)[0] == "B"


def test_a_long_one_that_does_not_fit_is_passed_over():
    """Four blocks of 16: B's 40 tokens need three, A holds two."""
    requests = [request("A", 20, 4), request("B", 40, 2), request("C", 18, 2)]
    steps, _ = with_slow_readers(requests, seats=8, blocks=4)
    assert set(scheduled(steps)[0]) == {"A", "C"}


def test_a_batch_too_large_to_read_along_leaves_out_who_has_text_left():
    """Ten tokens a second are read. Two requests yield them in 0.05 + 2 · 0.025 = 0.1 s, four in 0.15 s only. At 20 s A and
    B have far more text than the horizon; C and D have none: both served at full speed, 2, are worth more than all four
    at 1 / (10 · 0.15) of it."""
    tenths = {"base_s": 0.05}  # in truth steps are faster, so that text piles up
    requests = [request(name, 1, 2000, arrival) for name, arrival in (("A", 0), ("B", 0), ("C", 20), ("D", 20))]
    slow = {"ttft_s": 1.0, "reading_tokens_per_s": 10.0, "interval_s": 1.0, "step_s": 0.05, "per_request_s": 0.025}
    steps, _ = played({"name": "andes", **slow}, requests, 1000, max_num_seqs=8, latency=tenths)
    together = next(step for step in steps if "C" in step["scheduled"])
    assert set(together["scheduled"]) == {"C", "D"}
    assert set(together["preempted"]) == {"A", "B"}
    swift = slow | {"per_request_s": 0.0}
    steps, _ = played({"name": "andes", **swift}, requests, 1000, max_num_seqs=8, latency=tenths)
    assert not any(step["preempted"] for step in steps)


def test_only_so_many_that_wait_are_weighed():
    """Of five that wait the oldest and the newest; the newest has the shortest context of all and comes in first."""
    prompts = {"A": 9, "B": 8, "C": 1, "D": 7, "E": 6}
    requests = [request(name, tokens, 2, 0.1 * place) for place, (name, tokens) in enumerate(prompts.items(), start=1)]
    requests.insert(0, request("X", 1, 1))
    few, _ = with_slow_readers(requests, candidates=2, max_preemptions=0)
    assert who(few)[:2] == "XE"
    all_of_them, _ = with_slow_readers(requests, candidates=10, max_preemptions=0)
    assert who(all_of_them)[:2] == "XC"


@pytest.mark.parametrize(
    "wrong",
    [
        {"ttft_s": -1.0},
        {"reading_tokens_per_s": 0.0},
        {"interval_s": 0.0},
        {"horizon_s": 1.0},
        {"max_preemptions": -1},
        {"candidates": 1},
        {"step_s": 0.0},
        {"per_request_s": -1.0},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_parameters_out_of_range_are_named(wrong: dict[str, Any]):
    name = next(iter(wrong))
    with pytest.raises(ValueError, match=f"^{name} must be .*, not {wrong[name]}"):
        Andes(**wrong)


class Hectic(Andes):
    """Choices at nearly every step, batches too slow for the readers, many preemptions."""

    def __init__(self) -> None:
        super().__init__(0.05, 60.0, 0.02, 0.5, max_preemptions=3, candidates=4, step_s=0.01, per_request_s=0.003)


@settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_jumps_over_equal_steps_change_nothing(case: Case) -> None:
    case = adapted(case, "andes")
    case.policy = Hectic
    jumped, walked = (Simulation(case.setup(), case.trace, step_by_step=literal).run() for literal in (False, True))
    assert jumped.complete and difference(jumped, walked) is None
