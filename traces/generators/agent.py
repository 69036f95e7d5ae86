"""Coding agents: sessions whose prompts grow turn by turn, fitted to the Claude Code sessions of kv-cache-tester.

Sessions begin as a Poisson process; the source says nothing of when they do. The trace is a window of the steady state:
sessions that began up to a day before it are in it with what is left of them, so that its requests are of all ages, as
the source's are. In a session, a turn's prompt is that of the turn before and what was added since; at times the context
is compacted (`traces.generators.session` has the model). A turn follows the answer before it, which takes as long as it
took in the source for such lengths, and a pause: of the tool mostly, of the user at times. `think_s` is this pause, so
that `simulate.closed_sessions=true` can replay the session behind the answers of the simulated system.

What sessions share with each other the source does not say, since its content ids are local to a session: nothing, or
the first `common_tokens` tokens of all prompts.
"""

from __future__ import annotations

import math

import numpy as np

from traces.distributions import whole
from traces.generators.fit import Quantiles, figures
from traces.generators.session import HASH_BLOCK_TOKENS, Sessions
from traces.session_prefix import SessionPrefix
from traces.streams import Stream
from traces.trace import Report, Trace

RATE = 1.0  # requests/s, a choice
HISTORY_S = 24 * 3600.0  # 99.3 % of the source's requests come within a day of their session's first
LEAST_LIMIT = 20_000  # tokens; the smallest context in which the tools' descriptions and a task find room


def generate(
    num_requests: int,
    seed: int,
    rate: float | None = None,
    *,
    common_tokens: int = 0,
    context_limit: int | None = None,
) -> Trace:
    """`num_requests` requests of as many sessions as give `rate` requests/s (default 1) in the steady state.

    `common_tokens`: tokens at the start of every prompt that all sessions share, in whole blocks of 64. `context_limit`:
    the window of the model in tokens; prompt and answer stay within it by compaction (default: 200,000 tokens for most
    sessions and 1,000,000 for the others, as in the source).
    """
    if whole("trace.common_tokens", common_tokens) < 0:
        raise ValueError(f"trace.common_tokens is {common_tokens}, must not be negative")
    if context_limit is not None and whole("trace.context_limit", context_limit) < LEAST_LIMIT:
        raise ValueError(f"trace.context_limit is {context_limit}, must be at least {LEAST_LIMIT:,} tokens")
    mean_rate = RATE if rate is None else rate
    turns = Quantiles.of(**figures("agent")["turns"])
    session_rate = mean_rate / turns.mean()
    count = math.ceil(HISTORY_S * session_rate + 1.2 * num_requests / turns.mean() + 16)
    while True:
        rows, known_s = requests(seed, count, session_rate, context_limit)
        arrival_s = rows["arrival_s"]
        if np.count_nonzero(arrival_s <= known_s) >= num_requests:
            break
        count = math.ceil(1.5 * count)
    order = np.lexsort((rows["session"], arrival_s))[:num_requests]
    chosen = {name: values[order] for name, values in rows.items()}
    return Trace(
        name="agent",
        arrival_s=chosen["arrival_s"] - chosen["arrival_s"][0],
        prompt_tokens=chosen["prompt_tokens"],
        output_tokens=chosen["output_tokens"],
        session=[f"session-{number}" for number in chosen["session"].tolist()],
        turn=chosen["turn"],
        think_s=chosen["think_s"],
        prefix=prefix(chosen, common_tokens // HASH_BLOCK_TOKENS),
        report=Report(
            source=f"agent: fitted to Claude Code sessions of kv-cache-tester, {mean_rate:.4g} requests/s of "
            f"{len(np.unique(chosen['session'])):,} sessions",
            read=num_requests,
        ),
    )


def requests(seed: int, count: int, session_rate: float, context_limit: int | None) -> tuple[dict[str, np.ndarray], float]:
    """The requests of the first `count` sessions from the start of the trace on, turn by turn, and until when in seconds
    they are all there are."""
    number = np.arange(count)
    now_s = np.cumsum(Stream(seed, "agent/start").exponentials(number)) / session_rate - HISTORY_S
    known_s = float(now_s[-1])
    sessions = Sessions(seed, number, context_limit)
    parts: list[dict[str, np.ndarray]] = []
    while len(sessions.number):
        came = now_s >= 0
        parts.append({"arrival_s": now_s[came]} | {name: values[came] for name, values in sessions.columns().items()})
        running = sessions.turns > sessions.turn
        now_s = now_s[running] + sessions.answer_s()[running]
        sessions.advance(running)
        now_s += sessions.think_s
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, known_s


def prefix(rows: dict[str, np.ndarray], common_blocks: int) -> SessionPrefix:
    """Who shares what: each turn follows the one before it in its session, if that is in the trace."""
    session, turn = rows["session"], rows["turn"]
    order = np.lexsort((turn, session))
    same = np.diff(session[order]) == 0
    previous = np.full(len(session), -1, np.int64)
    previous[order[1:][same]] = order[:-1][same]
    return SessionPrefix(HASH_BLOCK_TOKENS, previous, rows["kept_blocks"], rows["prompt_tokens"], common_blocks)
