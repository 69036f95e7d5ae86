"""FastServe's queues, by hand: one seat and steps of one second, so that a quantum is so many tokens."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from policies.mlfq import Mlfq
from tests.policies.scenarios import free, played, request, scheduled
from tests.sim.cases import Case, cases, difference
from tests.sim.test_shipped_policies import adapted
from twin.sim.simulation import Simulation


def on_one_seat(requests: list[dict[str, Any]], blocks: int = 100, cache: dict[str, Any] | None = None, **parameters: Any):
    return played({"name": "mlfq", "per_prompt_token_s": 0.0, **parameters}, requests, blocks, cache=cache, max_num_seqs=1)


def finish_s(summary: dict[str, Any]) -> dict[str, float]:
    return {name: request["finish_s"] for name, request in summary["requests"].items()}


def who(steps: list[dict[str, Any]]) -> str:
    return "".join(name for step in scheduled(steps) for name in step)


def test_mlfq_01_a_request_joins_the_first_queue_whose_quantum_covers_its_prompt():
    policy = Mlfq(q0_s=0.010, ratio=2)
    assert [policy.first_level(prompt_ms / 1000) for prompt_ms in (5, 10, 11, 35, 80)] == [0, 0, 1, 2, 3]


def test_the_lowest_queue_takes_every_prompt():
    assert Mlfq(q0_s=0.010, ratio=2, levels=3).first_level(1000) == 2


def test_whoever_has_used_its_quantum_gives_way_to_a_newcomer_at_once():
    """A has two of the highest queue's two seconds, then one of the second queue's four when B comes."""
    steps, summary = on_one_seat([request("A", 1, 10), request("B", 1, 2, 3)], q0_s=2.0)
    assert who(steps) == "AAA" + "BB" + "AAAAAAA"
    assert [step["preempted"] for step in steps if step["preempted"]] == [{"A": "keep"}]
    assert finish_s(summary) == {"A": 12, "B": 5}


def test_nobody_gives_way_within_a_quantum():
    steps, _ = on_one_seat([request("A", 1, 6), request("B", 1, 2, 1)], q0_s=4.0)
    assert who(steps) == "AAAA" + "BB" + "AA"


def test_who_is_preempted_goes_on_with_the_rest_of_its_quantum():
    """A falls to the second queue at 1 s, with a quantum of two; B takes the seat for one second; A has one left of it,
    then stands behind C, which has come to the second queue meanwhile, after its own first second."""
    steps, _ = on_one_seat([request("A", 1, 6), request("B", 1, 1, 2), request("C", 1, 4, 2.5)], q0_s=1.0)
    assert who(steps) == "AA" + "B" + "C" + "A" + "CC" + "AAA" + "C"


def test_promotion_after_so_long_without_a_seat():
    """Shorts come one a second: A, in the second queue since 1 s, would wait for all of them."""
    shorts = [request(name, 1, 1, second) for second, name in enumerate("bcdefghi", start=1)]
    never, _ = on_one_seat([request("A", 1, 3), *shorts], q0_s=1.0, promote_after_s=0.0)
    assert who(never) == "A" + "bcdefghi" + "AA"
    steps, _ = on_one_seat([request("A", 1, 3), *shorts], q0_s=1.0, promote_after_s=4.5)
    assert who(steps) == "A" + "bcdef" + "A" + "ghi" + "A"  # 5.5 s: before g, which comes at 6 s


def test_a_long_prompt_that_skips_queues_lets_short_ones_pass():
    prompts = [request("A", 8, 1), request("B", 1, 1)]
    assert who(on_one_seat(prompts, q0_s=1.0)[0]) == "AB"  # both join the highest queue: order of arrival
    assert who(on_one_seat(prompts, q0_s=1.0, per_prompt_token_s=1.0)[0]) == "BA"


def test_what_is_kept_stays_on_the_device_and_nothing_is_computed_again():
    """A holds two blocks of 16 while B runs with one."""
    steps, summary = on_one_seat([request("A", 20, 4), request("B", 1, 1, 1)], blocks=8, q0_s=1.0)
    assert who(steps) == "ABAAA"
    assert free(steps) == [6, 6, 6, 6, 8]
    assert summary["requests"]["A"]["recomputed_tokens"] == 0


def test_kept_requests_move_out_when_fewer_blocks_are_free_than_shall_be():
    """Eight blocks, four of them to be kept free: A holds three when B comes with three. (After B's second, A has two of the
    second queue's, then B, which fell to it later, its last.)"""
    requests = [request("A", 40, 4), request("B", 40, 2, 1)]
    cache = {"num_cpu_blocks": 8}
    steps, summary = on_one_seat(requests, 8, cache, q0_s=1.0, free_share=0.5)
    assert (who(steps), free(steps)[:2]) == ("ABAABA", [5, 5])  # three are A's, then B's
    reactive, _ = on_one_seat(requests, 8, cache, q0_s=1.0, free_share=0.0)
    assert free(reactive)[:2] == [5, 2]
    assert [summary["requests"][name]["recomputed_tokens"] for name in "AB"] == [0, 0]


def test_who_waits_pushes_out_whom_the_host_has_room_for_and_nobody_else():
    """Four blocks: A holds three of them, in the second queue, when B comes and needs two. (A comes back when B's are
    free: what is swapped out pushes nobody out.)"""
    requests, policy = [request("A", 40, 6), request("B", 20, 2, 1)], {"name": "mlfq", "q0_s": 1.0}
    roomy, _ = played(policy, requests, 4, cache={"num_cpu_blocks": 8}, max_num_seqs=2)
    assert who(roomy) == "A" + "BB" + "AAAAA"
    steps, summary = played(policy, requests, 4, max_num_seqs=2)
    assert who(steps) == "AAAAAA" + "BB"
    assert summary["preemptions"] == 0


def test_without_a_host_pool_nothing_moves_and_nobody_is_asked_twice():
    policy = Mlfq(free_share=0.5)
    assert policy.background is not None

    class View:
        class limits:  # noqa: N801
            num_host_blocks = 0

    assert policy.background(View) == [] and policy.background is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"q0_s": 0.0},
        {"ratio": 0.5},
        {"levels": 0},
        {"per_prompt_token_s": -1.0},
        {"promote_after_s": -1.0},
        {"free_share": 1.0},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_parameters_out_of_range_are_named(wrong: dict[str, Any]):
    name = next(iter(wrong))
    with pytest.raises(ValueError, match=f"^{name} must be .*, not {wrong[name]}"):
        Mlfq(**wrong)


class Hectic(Mlfq):
    """Everything happens often: demotions, promotions, moves ahead of need."""

    def __init__(self) -> None:
        super().__init__(q0_s=0.003, ratio=1.5, levels=5, per_prompt_token_s=0.001, promote_after_s=0.05, free_share=0.3)


class Reactive(Mlfq):
    """Without moves ahead of need there are stretches to jump over."""

    def __init__(self) -> None:
        super().__init__(q0_s=0.015, levels=4, promote_after_s=0.3, free_share=0.0)


@pytest.mark.parametrize("kind", [Hectic, Reactive])
@settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_jumps_over_equal_steps_change_nothing(kind: type[Mlfq], case: Case) -> None:
    case = adapted(case, "mlfq")
    case.policy = kind
    jumped, walked = (Simulation(case.setup(), case.trace, step_by_step=literal).run() for literal in (False, True))
    assert jumped.complete and difference(jumped, walked) is None
