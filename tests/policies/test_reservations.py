"""Static batches and Orca: contiguous reservations, whole prompts, nobody preempted."""

import pytest

from policies.orca import Orca
from tests.policies.scenarios import played, request, scheduled
from twin.core.limits import Limits, Rules
from twin.core.request import Request
from twin.core.scheduler import Scheduler


def test_ord_01_orca_max_has_seven_requests_at_once_in_15700_slots():
    """PagedAttention, figure 13: 7.00 requests batched on average, on both data sets: floor(15700 / 2048) = 7."""
    scheduler = Scheduler(Limits(15700 // 16, 16, max_model_len=2048), Orca(), Rules(allocator="contiguous"))
    for place in range(20):
        scheduler.add(Request(str(place), 0.0, prompt_tokens=20, output_tokens=50))
    scheduler.plan(0.0)
    assert len(scheduler.state.running) == 7


@pytest.mark.parametrize(
    ("reserve", "blocks"),
    [
        ("max", 16),  # 64 tokens
        ("pow2", 11),  # 10 + 32 = 42 tokens
        ("oracle", 9),  # 10 + 25 - 1 = 34 tokens
    ],
)
def test_what_orca_sets_aside(reserve, blocks):
    """25 outputs: the PagedAttention paper's example of Orca (Pow2), which sets 32 aside."""
    policy = {"name": "orca", "reserve": reserve}
    steps, _ = played(policy, [request("A", 10, 25)], 20, 4, max_model_len=64, predictor="oracle")
    assert all(len(step["block_tables"].get("A", range(blocks))) == blocks for step in steps)


@pytest.mark.parametrize(("output", "reserved"), [(2, 2), (3, 4), (32, 32), (33, 64)])
def test_the_next_power_of_two(output, reserved):
    policy = {"name": "orca", "reserve": "pow2"}
    steps, _ = played(policy, [request("A", 1, output)], 100, 1, max_model_len=100, predictor="oracle")
    assert len(steps[0]["block_tables"]["A"]) == 1 + reserved


@pytest.mark.parametrize(
    ("reserve", "prompt", "output", "reserved"),
    [
        ("oracle", 10, 24, 64),  # 33 tokens
        ("oracle", 10, 23, 32),  # 32 tokens
        ("pow2", 10, 25, 64),  # 10 + 32 = 42 tokens
        ("pow2", 60, 20, 100),  # 60 + 32 = 92 tokens, so 128: more than a request can become
        ("max", 10, 24, 100),
    ],
)
def test_a_buddy_allocator_hands_out_powers_of_two(reserve, prompt, output, reserved):
    policy = {"name": "orca", "reserve": reserve, "buddy": True}
    steps, _ = played(policy, [request("A", prompt, output)], 100, 1, max_model_len=100, predictor="oracle")
    assert len(steps[0]["block_tables"]["A"]) == reserved


def test_only_predictions_are_asked_for_that_are_used():
    assert not Orca().needs_prediction
    assert Orca("pow2").needs_prediction and Orca("oracle").needs_prediction
    with pytest.raises(ValueError, match="needs predicted output lengths"):
        played({"name": "orca", "reserve": "oracle"}, [request("A", 4, 4)], 8)


def test_a_reservation_larger_than_the_pool_is_rejected_at_arrival():
    _, summary = played("orca", [request("A", 4, 4)], 8, 4, max_model_len=64)
    assert summary["requests"]["A"]["status"] == "rejected"
    assert summary["requests"]["A"]["reason"] == "a reservation of 16 contiguous blocks exceeds num_gpu_blocks=8"


def test_orca_gives_a_prompt_whole_or_not_at_all():
    """A budget of 12: B's 8 tokens do not fit beside A's prompt of 8; beside A's decode they do."""
    requests = [request("A", 8, 3), request("B", 8, 1)]
    steps, _ = played("orca", requests, 16, 4, max_model_len=16, max_num_batched_tokens=12)
    assert scheduled(steps) == [{"A": 8}, {"A": 1, "B": 8}, {"A": 1}]


def test_orca_admits_nobody_beside_a_prompt_that_no_step_can_hold_whole():
    requests = [request("A", 1, 6), request("B", 20, 1, 0.5), request("C", 2, 1, 0.5)]
    steps, _ = played("orca", requests, 32, 4, max_model_len=32, max_num_batched_tokens=9)
    assert scheduled(steps) == [{"A": 1}, {"A": 1, "B": 8}, {"A": 1, "B": 8}, {"A": 1, "B": 4}, {"A": 1, "C": 2}, {"A": 1}]


def test_a_static_batch_takes_whole_prompts_while_the_budget_lasts():
    requests = [request("A", 8, 2), request("B", 8, 1), request("C", 4, 1)]
    steps, _ = played("static", requests, 16, 4, max_model_len=16, max_num_batched_tokens=12)
    assert scheduled(steps) == [{"A": 8}, {"A": 1}, {"B": 8, "C": 4}]


def test_a_static_batch_of_one_where_no_step_can_hold_the_prompt_whole():
    requests = [request("A", 20, 2), request("B", 4, 1)]
    steps, _ = played("static", requests, 32, 4, max_model_len=32, max_num_batched_tokens=12)
    assert scheduled(steps) == [{"A": 12}, {"A": 8}, {"A": 1}, {"B": 4}]


def test_nobody_joins_a_static_batch_that_runs():
    requests = [request("A", 4, 4), request("B", 4, 1, 0.5), request("C", 4, 2, 1.5)]
    steps, _ = played("static", requests, 64, 4, max_model_len=16)
    assert scheduled(steps) == [{"A": 4}, {"A": 1}, {"A": 1}, {"A": 1}, {"B": 4, "C": 4}, {"C": 1}]
