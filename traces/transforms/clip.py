"""Limits on lengths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from traces.prefix import Prefix
from traces.trace import Trace
from traces.transforms.common import kept, require_arrivals

ACTIONS = ("clip", "drop")


def clipped(trace: Trace, max_prompt_tokens: int | None, max_output_tokens: int | None, action: str = "clip") -> Trace:
    """Requests longer than a limit are cut to it (`clip`: prompts at their end), or left out (`drop`); both counted."""
    limits = {"prompt": max_prompt_tokens, "output": max_output_tokens}
    lengths = {"prompt": trace.prompt_tokens, "output": trace.output_tokens}
    longer = {kind: lengths[kind] > limit for kind, limit in limits.items() if limit is not None}
    if not any(mask.any() for mask in longer.values()):
        return trace
    report = replace(trace.report, dropped=dict(trace.report.dropped), notes=list(trace.report.notes))
    if action == "drop":
        require_arrivals(trace, "trace.clip=drop")
        left = np.ones(len(trace), bool)
        for kind, mask in longer.items():
            report.drop(f"{kind} of more than {limits[kind]:,} tokens", int(np.count_nonzero(mask & left)))
            left &= ~mask
        return replace(kept(trace, np.flatnonzero(left), "trace.clip=drop"), report=report)
    for kind, mask in longer.items():
        if mask.any():
            report.notes.append(f"clipped to {limits[kind]:,} {kind} tokens: {np.count_nonzero(mask):,} requests")
    changed: dict[str, object] = {}
    if max_prompt_tokens is not None:
        changed["prompt_tokens"] = prompt_tokens = np.minimum(trace.prompt_tokens, max_prompt_tokens)
        changed["prefix"] = None if trace.prefix is None else shortened(trace.prefix, prompt_tokens)
    if max_output_tokens is not None:
        changed["output_tokens"] = np.minimum(trace.output_tokens, max_output_tokens)
        changed["max_tokens"] = None if trace.max_tokens is None else np.minimum(trace.max_tokens, max_output_tokens)
    return replace(trace, report=report, **changed)  # type: ignore[arg-type]


def shortened(prefix: Prefix, prompt_tokens: np.ndarray) -> Prefix:
    """The content of these first tokens of each prompt; an id stays while the prompt reaches into its block."""
    lengths = np.minimum(np.diff(prefix.offsets), -(-prompt_tokens // prefix.hash_block_tokens))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    source = np.repeat(prefix.offsets[:-1] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Prefix(prefix.hash_block_tokens, prefix.ids[source], offsets, prompt_tokens)
