"""A trace made for data-centre GPUs, cut down to what a CPU does in a minute.

A probe measures what a prompt token and a decode step cost here. Then lengths are multiplied by the largest share of 1, 1/2,
1/4, ... with which at least `WANTED` requests fit into the budget, as many requests are kept as fit, and arrivals are spread
so that the machine is busy for `LOAD` of the time. What was done is said in words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from engine.profile.composition import Composition
from engine.profile.stepper import Stepper
from engine.runner import ModelRunner
from traces.trace import Trace
from traces.transforms.clip import shortened
from traces.transforms.common import moved
from twin.core.limits import Limits, blocks_for

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


def probe(runner: ModelRunner, limits: Limits) -> Speed:
    """Measured on the runner's own pool, the best of three of each."""
    most = min(limits.num_blocks * limits.block_size, limits.max_model_len)
    prompt = min(PROBE_PROMPT, most, limits.max_num_batched_tokens)
    context = min(PROBE_CONTEXT, most)
    each = blocks_for(context, limits.block_size)
    batch = max(1, min(PROBE_BATCH, limits.max_num_seqs, limits.max_num_batched_tokens, limits.num_blocks // each))
    stepper = Stepper(runner, limits)
    prefill_s = _fastest(stepper, Composition("prefill", prompts=1, chunk=prompt))
    decode_s = _fastest(stepper, Composition("decode", decodes=batch, decode_context=context))
    return Speed(prefill_s / prompt, decode_s * PROBE_BATCH / batch)


def _fastest(stepper: Stepper, composition: Composition) -> float:
    return min(stepper.measure(composition).duration_s for _ in range(3))


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
