"""ltr: the order of scores, and its guard against starvation, step by step as in the authors' code."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.ltr import Ltr
from tests.policies.scenarios import named_by_step, played, request


def seated(requests, seats, threshold, period):
    """Who has a seat, step by step; blocks and budget are ample."""
    policy = {"name": "ltr", "starvation_threshold": threshold, "period": period}
    steps, _ = played(policy, requests, blocks=9999, predictor="oracle", max_num_seqs=seats)
    return [set(step["scheduled"]) for step in steps]


def test_ltr_01_a_request_left_out_for_two_steps_is_ahead_of_all_for_three_runs_and_then_goes_back_to_its_place():
    """Two seats, scores r3 < r1 < r2.

    r2 is promoted at step 3 and has 3 runs. r1, which gave way to it, is left out in steps 3 and 4 and promoted at step 5;
    r3 gives way. At step 6 r2 is at its place again, the last, and r3 takes its seat. At step 8 the runs of r1 are over and
    r2 has been left out in steps 6 and 7: it is promoted, and of the others r3 has the better score.
    """
    requests = [request("r1", 1, 30), request("r2", 1, 40), request("r3", 1, 20)]
    assert seated(requests, seats=2, threshold=2, period=3)[:8] == [
        {"r3", "r1"}, {"r3", "r1"}, {"r3", "r2"}, {"r3", "r2"}, {"r1", "r2"}, {"r1", "r3"}, {"r1", "r3"}, {"r2", "r3"},
    ]  # fmt: skip


def test_without_the_guard_it_is_the_order_of_scores():
    requests = [request("A", 1, 4), request("B", 1, 6), request("C", 1, 2, 1.5)]
    steps, _ = played({"name": "ltr", "starvation_threshold": 0}, requests, blocks=99, predictor="oracle", max_num_seqs=1)
    assert named_by_step(steps) == "AACCAABBBBBB"


def test_only_the_rank_matters_not_what_is_left():
    """When C is seen A has one token to go, and C two: by score A comes after C all the same."""
    requests = [request("A", 1, 4), request("C", 1, 2, 2.5)]
    steps, _ = played("ltr", requests, blocks=99, predictor="oracle", max_num_seqs=1)
    assert named_by_step(steps) == "AAACCA"


def test_a_prompt_in_chunks_does_not_use_up_the_period():
    """B, promoted at step 10, needs four steps for its prompt, and its period is 2: it is ahead until it has two tokens."""
    requests = [request("A", 1, 12), request("B", 16, 13)]
    policy = {"name": "ltr", "starvation_threshold": 9, "period": 2}
    steps, summary = played(policy, requests, blocks=99, predictor="oracle", max_num_seqs=1, max_num_batched_tokens=4)
    assert named_by_step(steps[:15]) == "AAAAAAAAABBBBBA"
    assert summary["requests"]["B"]["token_times_s"][:2] == [13.0, 14.0]


# --- against the rule as it stands in the authors' scheduler


def as_in_the_code(requests: dict[str, tuple[int, int]], seats: int, threshold: int, period: int) -> Iterator[set[str]]:
    """`requests`: id -> (the step before which it arrives, output tokens). Kept for each: idle steps, runs, priority."""
    idle, runs, priority, left = {}, {}, {}, {}
    coming = dict(requests)
    step = 0
    while coming or left:
        for name in [name for name, (arrives, _) in coming.items() if arrives <= step]:
            left[name] = coming.pop(name)[1]
            idle[name] = runs[name] = priority[name] = 0
        for name in left:
            if idle[name] >= threshold:
                priority[name], idle[name], runs[name] = -1, 0, period
            elif priority[name] == -1 and runs[name] <= 0:
                priority[name] = 0
        chosen = sorted(left, key=lambda name: (priority[name], requests[name][1]))[:seats]
        for name in left:
            if name in chosen:
                runs[name] -= priority[name] == -1
                idle[name] = 0
            else:
                idle[name] += 1
        for name in chosen:
            left[name] -= 1
            if not left[name]:
                del left[name]
        if chosen:
            yield set(chosen)
        step += 1


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    arrivals=st.lists(st.integers(0, 12), min_size=1, max_size=9),
    lengths=st.permutations(range(1, 15)),
    seats=st.integers(1, 3),
    threshold=st.integers(1, 6),
    period=st.integers(1, 4),
)
def test_each_step_seats_whom_the_authors_code_seats(arrivals, lengths, seats, threshold, period):
    arrivals = [0, *sorted(arrivals)]
    outputs = dict(zip((f"r{place}" for place in range(len(arrivals))), zip(arrivals, lengths, strict=False), strict=True))
    requests = [request(name, 1, output, max(0, step - 0.5)) for name, (step, output) in outputs.items()]
    assert seated(requests, seats, threshold, period) == list(as_in_the_code(outputs, seats, threshold, period))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"starvation_threshold": -1}, "starvation_threshold must be 0"), ({"period": 0}, "period must be 1 or more steps")],
)
def test_a_period_and_a_threshold_are_steps(parameters, message):
    with pytest.raises(ValueError, match=message):
        Ltr(**parameters)
