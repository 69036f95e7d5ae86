"""A trace made for data-centre GPUs, cut down to what a CPU does in a minute.

A probe measures what a prompt token and a decode step cost here. Then lengths are multiplied by the largest share of 1, 1/2,
1/4, ... with which at least `WANTED` requests fit into the budget, as many requests are kept as fit, and arrivals are spread
so that the machine is busy for `LOAD` of the time. What was done is said in words.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from engine.runner import ModelRunner
from engine.step_input import NO_ROW, StepInput
from traces.trace import Trace
from traces.transforms.clip import shortened
from traces.transforms.common import moved

WANTED = 32  # requests, so that the figures mean something
SMALLEST = 1 / 64
LOAD = 0.7
PROBE_PROMPT, PROBE_BATCH, PROBE_CONTEXT = 128, 8, 128  # tokens, sequences, tokens


class Speed(NamedTuple):
    """Of this machine, seconds."""

    prompt_token_s: float
    decode_step_s: float  # for PROBE_BATCH sequences

    def work_s(self, prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> np.ndarray:
        """About what each request costs, if PROBE_BATCH of them decode together."""
        return prompt_tokens * self.prompt_token_s + output_tokens * self.decode_step_s / PROBE_BATCH


def probe(runner: ModelRunner) -> Speed:
    """Measured on the runner's own pool, the best of three of each."""
    blocks = runner.cache.num_blocks * runner.cache.block_size
    prompt = min(PROBE_PROMPT, blocks)
    batch = max(1, min(PROBE_BATCH, blocks // PROBE_CONTEXT))
    context = min(PROBE_CONTEXT, blocks)
    prefill = _fastest(runner, _step(runner, 1, prompt, prompt))
    decode = _fastest(runner, _step(runner, batch, 1, context))
    return Speed(prefill / prompt, decode * PROBE_BATCH / batch)


def _fastest(runner: ModelRunner, step: StepInput) -> float:
    seconds = []
    for _ in range(3):
        began_s = time.perf_counter()
        runner.logits(step).argmax(1).tolist()
        seconds.append(time.perf_counter() - began_s)
    return min(seconds)


def _step(runner: ModelRunner, sequences: int, query: int, context: int) -> StepInput:
    block_size = runner.cache.block_size
    each = -(-context // block_size)
    tables = np.arange(sequences * each, dtype=np.int32).reshape(sequences, each)
    positions = np.tile(np.arange(context - query, context), sequences)
    blocks = tables[np.repeat(np.arange(sequences), query), positions // block_size].astype(np.int64)
    query_start = np.arange(sequences + 1, dtype=np.int32) * query
    return StepInput(
        np.ones(sequences * query, np.int64), np.full(sequences * query, NO_ROW), positions,
        blocks * block_size + positions % block_size, query_start, np.full(sequences, context, np.int32), tables,
        sequences if query == 1 else 0, [query] * sequences, [context] * sequences, query_start[1:].astype(np.int64) - 1, [],
    )  # fmt: skip


def scaled(trace: Trace, speed: Speed, budget_s: float, rate_given: bool) -> tuple[Trace, list[str]]:
    """The trace as this machine can play it in about `budget_s` seconds of work, and what was changed, in words."""
    share = 1.0
    while True:
        candidate = with_lengths(trace, share)
        work_s = speed.work_s(candidate.prompt_tokens, candidate.output_tokens)
        fit = int(np.searchsorted(np.cumsum(work_s), budget_s, side="right"))
        if fit >= min(WANTED, len(trace)) or share <= SMALLEST:
            break
        share /= 2
    kept = max(1, min(fit, len(trace)))
    result = candidate.limit(kept)
    notes = [] if kept == len(trace) else [f"the first {kept:,} of {len(trace):,} requests"]
    notes += [] if share == 1 else [f"lengths x {share:g}"]
    if result.closed is None and kept > 1:
        span_s = float(result.arrival_s[-1] - result.arrival_s[0])
        wanted_s = float(work_s[:kept].sum()) / LOAD
        if span_s and (span_s < wanted_s if rate_given else span_s != wanted_s):
            before, after = (kept - 1) / span_s, (kept - 1) / wanted_s
            result = moved(result, result.arrival_s * (wanted_s / span_s))
            notes.append(f"{after:.3g} requests/s instead of {before:.3g}")
    if not notes:
        return trace, []
    costs = f"{speed.prompt_token_s * 1e3:.2g} ms a prompt token, {speed.decode_step_s * 1e3:.2g} ms a step of {PROBE_BATCH}"
    return result, [f"scaled to this machine ({costs}): {', '.join(notes)}; engine.scale=none plays the trace as it is"]


def with_lengths(trace: Trace, share: float) -> Trace:
    """All lengths times the share, at least 1 token; shared prefixes are as much of the shorter prompts."""
    if share == 1:
        return trace
    prompts = np.maximum(1, np.rint(trace.prompt_tokens * share).astype(np.int64))
    outputs = np.maximum(1, np.rint(trace.output_tokens * share).astype(np.int64))
    limits = trace.max_tokens
    if limits is not None:
        limits = np.where(limits < 0, limits, np.maximum(1, np.rint(limits * share).astype(np.int64)))
    prefix = None if trace.prefix is None else shortened(trace.prefix, prompts)
    return replace(trace, prompt_tokens=prompts, output_tokens=outputs, max_tokens=limits, prefix=prefix)
