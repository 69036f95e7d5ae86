"""A trace is cut down to the machine: right values by hand."""

from dataclasses import replace

import numpy as np
import pytest

from engine.errors import EngineError
from engine.scaling import LOAD, PROBE_BATCH, SMALLEST, WANTED, Speed, probe, scaled, with_lengths
from engine.tiny import tiny_runner
from traces import open_trace
from traces.prefix import Prefix
from traces.trace import Trace
from twin.core import Limits

# A prompt token costs 0.01 s, a decode step of eight 0.08 s: so every token costs 0.01 s.
SPEED = Speed(0.01, 0.01 * PROBE_BATCH)


def trace(count: int = 100, prompt: int = 64, output: int = 36, gap_s: float = 1.0, **more: object) -> Trace:
    """Requests of 100 tokens, so of one second each, a second apart."""
    arrival_s = np.arange(count) * gap_s
    return Trace("even", arrival_s, np.full(count, prompt), np.full(count, output), **more)  # type: ignore[arg-type]


# --- what does not fit, and words


def test_a_trace_none_of_which_could_be_served_is_refused():
    """Of 100 tokens, 1/64 is 1 + 1."""
    with pytest.raises(EngineError, match=r"lengths x 0.015625 the shortest has 2 tokens; .* admit 1$"):
        scaled(trace(), SPEED, 50.0, False, longest=1)
    assert len(scaled(trace(), SPEED, 50.0, False, longest=2)[0])


def test_costs_are_written_out():
    (said, _) = scaled(trace(), Speed(0.0000112, 1.62), 50.0, False)[1]
    assert "(0.011 ms a prompt token, 1,600 ms a step of 8)" in said


# --- lengths


def test_lengths_are_times_the_share_and_never_nothing():
    given = Trace(
        "t", np.zeros(4), np.array([1000, 10, 1, 3]), np.array([4, 400, 1, 2]), max_tokens=np.array([8, -1, 1, 100])
    )
    half = with_lengths(given, 0.25)
    assert half.prompt_tokens.tolist() == [250, 2, 1, 1] and half.output_tokens.tolist() == [1, 100, 1, 1]
    assert half.max_tokens.tolist() == [2, -1, 1, 25]
    assert half.arrival_s.tolist() == given.arrival_s.tolist()
    assert with_lengths(given, 1) is given


@pytest.mark.parametrize("share", [0.5, 0.25, 1 / 16])
def test_what_prompts_have_in_common_is_scaled_with_them(share):
    """Of 256 tokens, 192 are shared by two, and 64 by all: so it is with fewer."""
    ids = [[1, 2, 3, 4], [1, 2, 3, 9], [1, 7, 8, 9]]
    given = trace(3, 256, 1, prefix=Prefix.of(ids, [256] * 3, 64))
    assert given.prefix.cached_tokens().tolist() == [0, 192, 64]
    less = with_lengths(given, share)
    assert less.prefix.prompt_tokens.tolist() == less.prompt_tokens.tolist() == [256 * share] * 3
    assert less.prefix.cached_tokens().tolist() == [0, 192 * share, 64 * share]


def test_prefixes_of_single_tokens_stay_prefixes():
    ids = [list(range(16)), [*range(8), *range(50, 58)]]
    less = with_lengths(trace(2, 16, 1, prefix=Prefix.of(ids, [16, 16], 1)), 0.25)
    assert less.prefix.hash_block_tokens == 1 and less.prefix.cached_tokens().tolist() == [0, 4]


def test_a_conversation_of_the_agent_trace_hits_as_much():
    given = open_trace(name="agent", num_requests=60, seed=1)
    hit = given.prefix.cached_tokens().sum() / given.prompt_tokens.sum()
    assert hit > 0.4
    for share in (0.25, 1 / 64):
        less = with_lengths(given, share)
        assert less.prefix.cached_tokens().sum() / less.prompt_tokens.sum() == pytest.approx(hit, abs=0.01)


def test_pauses_come_after_as_large_a_part_of_the_output_and_return_as_much():
    less = with_lengths(trace(3, 8, 100, pauses=["40:1.5;80:0.25:60", "1:2;2:3;90:1:1", ""]), 0.1)
    assert [less.pauses_of(row) for row in range(3)] == [
        ((4, 1.5, 0), (8, 0.25, 6)),
        ((1, 2.0, 0), (2, 3.0, 0), (9, 1.0, 0)),
        (),
    ]


# --- shares, counts, rates


def test_a_trace_that_fits_is_left_alone():
    given = trace(count=20, gap_s=2)  # 20 s of work in 38 s
    assert scaled(given, SPEED, 60, rate_given=True) == (given, [])


def test_as_many_requests_are_kept_as_fit():
    """A second each: of 100, those of the first 60 s, spread over 60 / 0.7 s."""
    result, notes = scaled(trace(), SPEED, 60, rate_given=True)
    assert len(result) == 60 and result.prompt_tokens[0] == 64
    rate = 59 / (60 / LOAD)  # 0.688 requests/s
    assert (len(result) - 1) / (result.arrival_s[-1] - result.arrival_s[0]) == pytest.approx(rate, rel=1e-3)
    assert notes == [
        "scaled to this machine (10 ms a prompt token, 80 ms a step of 8): the first 60 of 100 requests, "
        "0.688 requests/s instead of 1",
        "for several runs of one trace: engine.scale=none trace.num_requests=60 trace.rate=0.688; "
        "engine.scale=none alone plays it as it is",
    ]


@pytest.mark.parametrize(
    ("budget_s", "share", "kept"),
    [(60, 1, 60), (32, 1, 32), (31, 1 / 2, 62), (16, 1 / 2, 32), (15, 1 / 4, 60), (0.3, SMALLEST, 15)],
)
def test_the_largest_share_with_which_enough_requests_fit(budget_s, share, kept):
    result, _ = scaled(trace(1000), SPEED, budget_s, rate_given=False)
    assert result.prompt_tokens[0] == round(64 * share)
    # 100 tokens times 1/64 are 1 and 1: 0.02 s each
    assert len(result) == kept and (kept >= WANTED or share == SMALLEST)


def test_a_short_trace_is_kept_whole_with_shorter_requests():
    result, notes = scaled(trace(count=10), SPEED, 5, rate_given=True)
    assert len(result) == 10 and result.prompt_tokens.tolist() == [32] * 10 and result.output_tokens.tolist() == [18] * 10
    assert "lengths x 0.5" in notes[0] and "requests of" not in notes[0] and "of 10 requests" not in notes[0]
    assert "engine.scale=0.5 trace.num_requests=10" in notes[1]


def test_at_least_one_request_is_played():
    assert len(scaled(trace(5), Speed(1e3, 1e3), 0.001, rate_given=False)[0]) == 1


def test_requests_come_faster_only_where_nobody_said_when():
    """20 s of work that come in 190 s: the machine would be idle for most of it."""
    slow = trace(count=20, gap_s=10)
    result, notes = scaled(slow, SPEED, 60, rate_given=False)
    assert result.arrival_s[-1] == pytest.approx(20 / LOAD, rel=1e-2) and "0.665 requests/s instead of 0.1" in notes[0]
    assert scaled(slow, SPEED, 60, rate_given=True) == (slow, [])
    crowded = trace(count=20, gap_s=0.5)
    assert scaled(crowded, SPEED, 60, rate_given=True)[0].arrival_s[-1] == pytest.approx(20 / LOAD, rel=1e-2)


def test_deadlines_and_aborts_keep_their_distance_to_the_arrival():
    given = trace(deadline_s=np.arange(100) + 3.0, abort_s=np.arange(100) + 5.0)
    result, _ = scaled(given, SPEED, 60, rate_given=False)
    assert (result.deadline_s - result.arrival_s).tolist() == pytest.approx([3.0] * 60)
    assert (result.abort_s - result.arrival_s).tolist() == pytest.approx([5.0] * 60)


def test_all_at_once_stays_all_at_once():
    result, notes = scaled(trace(gap_s=0), SPEED, 60, rate_given=False)
    assert result.arrival_s.tolist() == [0.0] * 60 and "requests/s" not in notes[0] and "trace.rate" not in notes[1]


def test_a_closed_loop_is_shorter_and_has_no_rate():
    given = open_trace(
        name="synthetic", arrivals="closed(4)", prompt_tokens="constant(64)", output_tokens="constant(36)", num_requests=100
    )
    result, notes = scaled(given, SPEED, 60, rate_given=False)
    assert len(result) == 60 and result.closed == given.closed and "requests/s" not in notes[0]


def test_requests_that_the_model_cannot_serve_cost_nothing_and_do_not_count():
    """Of every two, one of 1,000 tokens is rejected where 200 are the longest, until a quarter is 250, an eighth 125."""
    lengths = np.tile([64, 964], 50)
    given = replace(trace(), prompt_tokens=lengths)
    result, _ = scaled(given, SPEED, 60, rate_given=False, longest=200)
    assert len(result) == 100 and result.prompt_tokens[:2].tolist() == [64, 964]  # 50 that are served are enough
    result, _ = scaled(given.limit(40), SPEED, 60, rate_given=False, longest=200)
    assert result.prompt_tokens[:2].tolist() == [8, 120]  # 20 are not


def test_the_default_trace_fills_the_budget_with_enough_requests():
    """`engine run policy=fcfs trace=chat` on a CPU whose prompt token costs 3 ms, its step of eight 80 ms."""
    speed = Speed(0.003, 0.08)
    result, _ = scaled(open_trace(name="chat", seed=0), speed, 60, rate_given=False)
    work_s = speed.work_s(result.prompt_tokens, result.output_tokens).sum()
    assert len(result) >= WANTED and 50 < work_s <= 60
    assert result.arrival_s[-1] == pytest.approx(work_s / LOAD, rel=0.01)


# --- the probe


def test_the_probe_keeps_to_the_limits():
    """A pool of three blocks, two seats, ten tokens a step; or no limit to a request's length but the pool's."""
    for limits in (Limits(3, block_size=4, max_num_seqs=2, max_num_batched_tokens=10, max_model_len=8), Limits(200)):
        speed = probe(tiny_runner(limits), limits)
        assert 0 < speed.prompt_token_s < 10 and 0 < speed.decode_step_s < 100
