"""Tables of steps worked out by hand, which tell the policies apart (acceptance cases bud-02, bud-04, bud-05)."""

import pytest

from tests.policies.scenarios import MILLISECONDS, end_ms, free, gaps, played, request, scheduled, token_ms


@pytest.mark.parametrize("policy", ["fcfs", "sarathi"])
def test_bud_02_prompts_in_chunks_beside_each_other(policy):
    requests = [request("A", 10, 3), request("B", 5, 2)]
    steps, summary = played(policy, requests, 16, 4, latency=MILLISECONDS, max_num_batched_tokens=8)
    assert scheduled(steps) == [{"A": 8}, {"A": 2, "B": 5}, {"A": 1, "B": 1}, {"A": 1}]
    assert end_ms(steps) == [18, 35, 47, 58]
    assert free(steps) == [14, 11, 13, 16]
    assert token_ms(summary, "A") == [35, 47, 58]  # TPOT (58 - 35) / 2 = 11.5
    assert token_ms(summary, "B") == [35, 47]


def test_whole_prompts_first_when_they_fit_in_one_step():
    requests = [request("A", 10, 3), request("B", 5, 2)]
    steps, _ = played(
        "prefill_first", requests, 16, 4, latency=MILLISECONDS, max_num_batched_tokens=16, enable_chunked_prefill=False
    )
    assert scheduled(steps) == [{"A": 10, "B": 5}, {"A": 1, "B": 1}, {"A": 1}]
    assert end_ms(steps) == [25, 37, 48]
    assert free(steps) == [11, 13, 16]


def test_bud_04_static_keeps_the_next_waiting_though_a_seat_is_free():
    requests = [request("A", 10, 3), request("B", 5, 2), request("C", 4, 1)]
    steps, summary = played("static", requests, 16, 4, max_model_len=16, latency=MILLISECONDS, max_num_seqs=2)
    assert scheduled(steps) == [{"A": 10, "B": 5}, {"A": 1, "B": 1}, {"A": 1}, {"C": 4}]
    assert [token_ms(summary, name)[-1] for name in "ABC"] == [48, 37, 62]
    assert free(steps) == [8, 12, 16, 16]  # four blocks each, given back by each at its own end


def test_bud_04_orca_gives_the_place_of_one_that_ends_to_the_next():
    requests = [request("A", 10, 3), request("B", 5, 2), request("C", 4, 2)]
    steps, summary = played("orca", requests, 8, 4, max_model_len=16, latency=MILLISECONDS)
    assert scheduled(steps) == [{"A": 10, "B": 5}, {"A": 1, "B": 1}, {"A": 1, "C": 4}, {"C": 1}]
    assert [token_ms(summary, name)[-1] for name in "AB"] == [52, 37]
    assert token_ms(summary, "C") == [52, 63]
    assert free(steps) == [0, 4, 4, 8]


LONG_PROMPT_COMES = [request("A", 4, 8), request("B", 20, 2, 0.015)]


def test_bud_05_prefill_first_stalls_who_decodes():
    steps, summary = played(
        "prefill_first", LONG_PROMPT_COMES, 64, 4, latency=MILLISECONDS, max_num_batched_tokens=64,
        enable_chunked_prefill=False,
    )  # fmt: skip
    assert scheduled(steps)[:4] == [{"A": 4}, {"A": 1}, {"B": 20}, {"A": 1, "B": 1}]
    assert max(gaps(token_ms(summary, "A"))) == 67 - 25
    assert token_ms(summary, "A")[-1] == 122
    assert token_ms(summary, "B")[0] == 55


@pytest.mark.parametrize("policy", ["fcfs", "sarathi"])
def test_bud_05_chunks_do_not_stall_who_decodes(policy):
    steps, summary = played(policy, LONG_PROMPT_COMES, 64, 4, latency=MILLISECONDS, max_num_batched_tokens=8)
    assert scheduled(steps)[2:5] == [{"A": 1, "B": 7}, {"A": 1, "B": 7}, {"A": 1, "B": 6}]
    assert max(gaps(token_ms(summary, "A"))) == 18
    assert token_ms(summary, "A")[-1] == 112
    assert token_ms(summary, "B")[0] == 78
