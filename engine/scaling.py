"""A trace made for data-centre GPUs, cut down to what a CPU does in a minute.

A probe measures what a prompt token and a decode step cost here. Then lengths are multiplied by the largest share of 1, 1/2,
1/4, ... with which at least `WANTED` requests fit into the budget and into the model, as many requests are kept as fit, and
arrivals are spread so that the machine is busy for `LOAD` of the time. What was done is said in words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from engine.errors import EngineError
from engine.profile.composition import Composition
from engine.profile.stepper import Stepper
from engine.runner import ModelRunner
from traces.pauses import Pause
from traces.prefix import Prefix
from traces.trace import Trace
from traces.transforms.clip import shortened
from twin.core.limits import NO_LIMIT, Limits, blocks_for

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
    stepper = Stepper(runner, replace(limits, max_model_len=most))  # its prompts are parts of one so long
    prefill_s = _fastest(stepper, Composition("prefill", prompts=1, chunk=prompt))
    decode_s = _fastest(stepper, Composition("decode", decodes=batch, decode_context=context))
    return Speed(prefill_s / prompt, decode_s * PROBE_BATCH / batch)


def _fastest(stepper: Stepper, composition: Composition) -> float:
    return min(stepper.measure(composition).duration_s for _ in range(3))


def scaled(
    trace: Trace, speed: Speed, budget_s: float, rate_given: bool, longest: int = NO_LIMIT
) -> tuple[Trace, list[str]]:
    """The trace as this machine can play it in about `budget_s` seconds of work, and what was changed, in words.

    Requests of more than `longest` tokens will be rejected: they cost nothing, and are none of those that are wanted.
    Raises `EngineError` where that is all of them.
    """
    share = 1.0
    while True:
        prompts, outputs = _times(trace.prompt_tokens, share), _times(trace.output_tokens, share)
        served = prompts + outputs <= longest
        work_s = np.where(served, speed.work_s(prompts, outputs), 0.0)
        fit = int(np.searchsorted(np.cumsum(work_s), budget_s, side="right"))
        if served[:fit].sum() >= min(WANTED, len(trace)) or share <= SMALLEST:
            break
        share /= 2
    if not served.any():
        raise EngineError(
            f"no request of the trace fits: with lengths x {share:g} the shortest has {(prompts + outputs).min():,} tokens; "
            f"model.max_model_len and the pool of blocks admit {longest:,}"
        )
    kept = max(1, fit)
    result, rate = _at_load(with_lengths(trace.limit(kept), share), float(work_s[:kept].sum()), rate_given)
    if (kept, share, rate) == (len(trace), 1, None):
        return trace, []
    costs = f"{_ms(speed.prompt_token_s)} ms a prompt token, {_ms(speed.decode_step_s)} ms a step of {PROBE_BATCH}"
    return result, [f"scaled to this machine ({costs}): {_in_words(trace, kept, share, rate)}", _again(kept, share, rate)]


def _at_load(trace: Trace, work_s: float, rate_given: bool) -> tuple[Trace, float | None]:
    """Arrivals spread so that the work is `LOAD` of the time; the new rate, None where they stay as they are."""
    span_s = float(trace.arrival_s[-1] - trace.arrival_s[0]) if trace.closed is None else 0.0
    wanted_s = work_s / LOAD
    if not span_s or not wanted_s or (rate_given and span_s >= wanted_s):
        return trace, None
    rate = float(f"{_rate(trace) * span_s / wanted_s:.3g}")
    return trace.rescaled(rate), rate


def _rate(trace: Trace) -> float:
    """Requests/s, as `trace.rate` counts them."""
    return (len(trace) - 1) / float(trace.arrival_s[-1] - trace.arrival_s[0])


def _ms(seconds: float) -> str:
    """Milliseconds, two digits that say something: 0.011, 7.4, 1,600."""
    return f"{float(f'{seconds * 1e3:.2g}'):,g}"


def _in_words(trace: Trace, kept: int, share: float, rate: float | None) -> str:
    done = [] if kept == len(trace) else [f"the first {kept:,} of {len(trace):,} requests"]
    done += [] if share == 1 else [f"lengths x {share:g}"]
    done += [] if rate is None else [f"{rate:g} requests/s instead of {_rate(trace.limit(kept)):.3g}"]
    return ", ".join(done)


def _again(kept: int, share: float, rate: float | None) -> str:
    """The machine's speed is never the same twice: what to say for a trace that other runs are compared on."""
    words = [f"engine.scale={'none' if share == 1 else format(share, 'g')}", f"trace.num_requests={kept}"]
    words += [] if rate is None else [f"trace.rate={rate:g}"]
    return f"for several runs of one trace: {' '.join(words)}; engine.scale=none alone plays it as it is"


def with_lengths(trace: Trace, share: float) -> Trace:
    """All lengths times the share, at least 1 token: prompts, what they have in common, outputs, where these pause."""
    if share == 1:
        return trace
    prompts, outputs, limits = _times(trace.prompt_tokens, share), _times(trace.output_tokens, share), trace.max_tokens
    if limits is not None:
        limits = np.where(limits < 0, limits, _times(limits, share))
    prefix = trace.prefix
    if prefix is not None:
        hash_tokens = max(1, round(prefix.hash_block_tokens * share))
        prefix = shortened(Prefix(hash_tokens, prefix.ids, prefix.offsets, prefix.prompt_tokens), prompts)
    pauses = None if trace.pauses is None else [_sooner(trace.pauses_of(row), share) for row in range(len(trace))]
    return replace(trace, prompt_tokens=prompts, output_tokens=outputs, max_tokens=limits, prefix=prefix, pauses=pauses)


def _times(tokens: np.ndarray, share: float) -> np.ndarray:
    return np.maximum(1, np.rint(tokens * share).astype(np.int64))


def _sooner(pauses: tuple[Pause, ...], share: float) -> str:
    """Pauses of a request whose lengths are times the share, as the column's text."""
    parts, before = [], 0
    for after, seconds, returned in pauses:
        before = max(before + 1, round(after * share))
        parts.append(f"{before}:{seconds!r}:{round(returned * share)}")
    return ";".join(parts)
