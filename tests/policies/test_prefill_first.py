"""vLLM V0's step: prompts first and alone, then decodes, then swap-in."""

import pytest

from policies.prefill_first import PrefillFirst
from tests.policies.scenarios import gaps, played, request, scheduled, token_ms

# A decodes; from then on a prompt of one step arrives in the middle of every step.
PROMPTS_KEEP_COMING = [request("A", 4, 5)] + [request(f"r{step:02}", 4, 1, step - 0.5) for step in range(1, 21)]


def test_bud_11_decodes_starve_while_prompts_keep_coming():
    _, summary = played("prefill_first", PROMPTS_KEEP_COMING, 64)
    assert token_ms(summary, "A")[:2] == [1000, 22000]  # the last of 20 prompts ends at 21 s


@pytest.mark.parametrize(
    ("cap", "times_s"),
    [(1, [1, 2, 4, 6, 8]), (2, [1, 3, 6, 9, 12]), (3, [1, 4, 8, 12, 16])],
)
def test_bud_11_with_a_cap_decodes_get_every_so_many_steps_one(cap, times_s):
    """A's own prompt counts as the first prompt step."""
    _, summary = played({"name": "prefill_first", "max_prefill_steps": cap}, PROMPTS_KEEP_COMING, 64)
    times = token_ms(summary, "A")
    assert times == [1000 * time_s for time_s in times_s]
    assert max(gaps(times)) <= 1000 * (cap + 1)


def test_a_negative_cap_is_refused():
    with pytest.raises(ValueError, match="max_prefill_steps must be 0"):
        PrefillFirst(-1)


def test_chunks_of_a_prompt_stand_alone_too():
    requests = [request("A", 4, 4), request("B", 12, 2, 1.5)]
    steps, _ = played("prefill_first", requests, 64, 4, max_num_batched_tokens=8)
    assert scheduled(steps) == [{"A": 4}, {"A": 1}, {"B": 8}, {"B": 4}, {"A": 1, "B": 1}, {"A": 1}]


def test_nobody_is_admitted_while_somebody_is_swapped_out():
    """B (two blocks) is swapped out at step 3, when A takes the last block, and needs three to come back; C needs one."""
    requests = [request("A", 7, 6), request("B", 7, 6), request("C", 4, 1, 3.5)]
    steps, summary = played(
        {"name": "prefill_first", "preemption_mode": "swap"}, requests, 4, 4, cache={"num_cpu_blocks": 8}
    )
    assert scheduled(steps) == (
        [{"A": 7, "B": 7}, {"A": 1, "B": 1}] + [{"A": 1}] * 4 + [{"B": 1}, {"C": 4}] + [{"B": 1}] * 3
    )
    assert steps[2]["preempted"] == {"B": "swap"} and steps[2]["free_blocks"] == 1
    assert steps[6]["swapped_in"] == ["B"]
    assert summary["requests"]["B"]["recomputed_tokens"] == 0
    assert token_ms(summary, "B") == [1000, 2000, 7000, 9000, 10000, 11000]


def test_recompute_comes_back_as_a_prompt():
    requests = [request("A", 7, 6), request("B", 7, 6)]
    steps, summary = played("prefill_first", requests, 4, 4)
    assert scheduled(steps) == [{"A": 7, "B": 7}, {"A": 1, "B": 1}] + [{"A": 1}] * 4 + [{"B": 9}] + [{"B": 1}] * 3
    assert summary["requests"]["B"]["recomputed_tokens"] == 8


def test_the_watermark_keeps_blocks_back_while_anything_runs():
    """int(0.2 * (10 + 1)) = 2 blocks: B, one block, fits only when A has ended, for 10 - 8 = 2 are free."""
    requests = [request("A", 32, 2), request("B", 4, 1, 0.5)]
    steps, _ = played("prefill_first", requests, 10, 4, cache={"watermark": 0.2})
    assert scheduled(steps) == [{"A": 32}, {"A": 1}, {"B": 4}]
    without, _ = played("prefill_first", requests, 10, 4)
    assert scheduled(without) == [{"A": 32}, {"B": 4}, {"A": 1}]
