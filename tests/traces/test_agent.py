"""`agent` against the Claude Code sessions that it was fitted to.

The models published with the fit had a Kolmogorov-Smirnov distance of the contexts of 0.13; outputs 0.011, turns 0.022.
"""

import gzip
import json

import numpy as np
import pytest
from scipy.stats import ks_2samp

from tests.shared import shared
from tests.traces.generated import assert_shorter_is_a_beginning, published
from traces import open_trace
from traces.statistics import session_hit_rate

REQUESTS = 120_000


@pytest.fixture(scope="module")
def agent():
    return open_trace("agent", num_requests=REQUESTS)


@pytest.fixture(scope="module")
def sessions():
    """The requests of the distinct sessions: (session, prompt, output, think time) each."""
    path = shared("traces", "claude_code_kvcache_tester", "traces.rle.jsonl.gz")
    seen, rows = set(), []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            turns = [turn for turn in json.loads(line)["requests"] if "hash_runs" in turn]
            beginning = (len(turns), *((turn["t"], turn["in"]) for turn in turns[:8]))
            if beginning not in seen:
                seen.add(beginning)
                rows += [(len(seen), turn["in"], turn["out"], turn.get("think_time", np.nan)) for turn in turns]
    return np.array(rows).T


@pytest.mark.parametrize("options", [{}, {"rate": 5.0}, {"common_tokens": 6_400, "context_limit": 128_000}])
def test_a_shorter_trace_is_the_beginning_of_a_longer_one(options):
    assert_shorter_is_a_beginning("agent", **options)


def test_the_source_is_the_published_one(sessions):
    real = published("claude_code_sessions")
    assert len(sessions[0]) == real["n"] and sessions[0].max() == real["n_sessions"]


def test_contexts_and_outputs_have_the_distributions_of_the_source(agent, sessions):
    """In the steady state a trace's requests are those of whole sessions."""
    assert ks_2samp(agent.prompt_tokens, sessions[1]).statistic < 0.08
    assert ks_2samp(agent.output_tokens, sessions[2]).statistic < 0.015
    think = sessions[3][np.isfinite(sessions[3])]
    assert ks_2samp(agent.think_s, think).statistic < 0.06


def test_sessions_have_the_published_turns_and_first_contexts(agent):
    real = published("claude_code_sessions")
    turns = {}
    first = {}
    for session, turn, prompt in zip(agent.session, agent.turn.tolist(), agent.prompt_tokens.tolist(), strict=True):
        turns.setdefault(session, []).append(turn)
        if turn == 1:
            first[session] = prompt
    last_start = sorted(first, key=lambda name: int(name.split("-")[1]))
    ended = [turns[name] for name in last_start[: len(last_start) // 2]]  # most of these are over
    for turn in ended:
        assert turn == list(range(1, len(turn) + 1))
    assert np.median([len(turn) for turn in ended]) == pytest.approx(real["turns_per_session"]["p50"], rel=0.12)
    for percentile in (10, 25, 50):
        ours = np.percentile(list(first.values()), percentile)
        assert ours == pytest.approx(real["first_input"][f"p{percentile}"], rel=0.12)


def test_the_turn_before_has_most_of_the_prompt(agent):
    """What a cache that forgets nothing finds in a session: 0.963 of the source's blocks."""
    real = published("claude_code_sessions")["prefix"]["infinite_cache_prefix_hit_blocks"]
    assert session_hit_rate(agent.prefix, agent.session) == pytest.approx(real, abs=0.01)


def test_the_window_of_the_trace_is_steady(agent):
    """As many requests in each quarter of the time, and of the same lengths."""
    quarter = np.floor(4 * agent.arrival_s / (agent.arrival_s[-1] + 1e-9)).astype(int)
    assert np.bincount(quarter) == pytest.approx(np.full(4, REQUESTS / 4), rel=0.12)
    halves = agent.prompt_tokens[quarter < 2], agent.prompt_tokens[quarter >= 2]
    assert ks_2samp(*halves).statistic < 0.06
    assert REQUESTS / agent.arrival_s[-1] == pytest.approx(1, rel=0.08)


def test_sessions_can_be_replayed_in_a_closed_loop(agent):
    """Turns of a session are in order, each after the pause that follows the answer before it."""
    last = {}
    for session, turn, arrival_s, think_s in zip(
        agent.session, agent.turn.tolist(), agent.arrival_s.tolist(), agent.think_s.tolist(), strict=True
    ):
        assert think_s >= 0 and (turn > 1 or think_s == 0)
        if session in last:
            before, before_s = last[session]
            assert turn == before + 1 and arrival_s > before_s + think_s
        last[session] = turn, arrival_s


def test_sessions_share_what_the_option_says():
    alone = open_trace("agent", num_requests=3_000)
    shared_too = open_trace("agent", num_requests=3_000, common_tokens=6_400)
    assert np.array_equal(alone.prompt_tokens, shared_too.prompt_tokens)
    first = np.flatnonzero(alone.turn == 1)[:2].tolist()
    assert alone.session[first[0]] != alone.session[first[1]]
    assert alone.prefix.common_tokens(*first) == 0 and shared_too.prefix.common_tokens(*first) == 6_400
    keys = [shared_too.prefix.block_keys(row, 16, 401) for row in first]
    assert keys[0][:400] == keys[1][:400] and keys[0][400] != keys[1][400]


def test_a_limit_of_the_context_is_kept():
    trace = open_trace("agent", num_requests=20_000, context_limit=128_000)
    total = trace.prompt_tokens + trace.output_tokens
    assert total.max() <= 128_000
    assert trace.prompt_tokens.max() > 90_000


@pytest.mark.parametrize(
    "options, problem",
    [({"common_tokens": -1}, "trace.common_tokens is -1"), ({"context_limit": 4096}, "trace.context_limit is 4096")],
)
def test_what_makes_no_sense_is_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        open_trace("agent", **options)
