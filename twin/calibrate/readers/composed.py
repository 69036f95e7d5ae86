"""Steps put together from kernel times: what a step-time model is fitted to where only kernels were measured."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from twin.core.batch import Features
from twin.latency.table import KernelTables, TableLatency

COUNT = 6000
MOST_PARTS = 4  # prompts of which a step computes a part
LONGEST_CONTEXT = 16384  # of one decode; tables go as far
SHARE_WITH_BEFORE = 0.3  # of the prompts that began in an earlier step
LONGEST_BEFORE = 8192


class Extent(NamedTuple):
    """How large steps get."""

    sequences: int
    prefill_tokens: int
    context_tokens: int  # that the KV cache holds


def extent(tables: KernelTables, context_tokens: int) -> Extent:
    """As far as the tables go, within a KV cache of so many tokens."""
    sequences = min(256, int(tables.head[0][-1]))
    prefill = min(int(tables.dense[0][-1]), int(tables.prefill_attention.rows[-1]), 8192)
    return Extent(sequences, prefill, context_tokens)


def compose(tables: KernelTables, within: Extent, count: int = COUNT) -> tuple[np.ndarray, np.ndarray]:
    """(features, seconds) of steps all over the range."""
    model = TableLatency(tables)
    steps = draw_steps(within, count)
    return np.array(steps, float), np.array([model.step_s(step) for step in steps])


def draw_steps(within: Extent, count: int) -> list[Features]:
    """A third decodes, a third prefills, a third both; sizes are uniform in the logarithm.

    They are always the same, so that a fit can be made again.
    """
    return [_draw(number, np.random.default_rng((0, number)), within) for number in range(count)]


def _draw(number: int, draw: np.random.Generator, within: Extent) -> Features:
    decodes = context = prefill = before = parts = 0
    if number % 3 != 1:
        decodes = int(math.exp(draw.uniform(0, math.log(within.sequences + 1))))
        longest = min(LONGEST_CONTEXT, within.context_tokens / decodes)
        context = int(min(math.exp(draw.uniform(math.log(32), math.log(LONGEST_CONTEXT))), longest))
    if number % 3 != 0:
        prefill = int(math.exp(draw.uniform(math.log(16), math.log(within.prefill_tokens))))
        parts = int(draw.integers(1, MOST_PARTS + 1)) if prefill >= 64 else 1
        before = int(math.exp(draw.uniform(0, math.log(LONGEST_BEFORE)))) if draw.random() < SHARE_WITH_BEFORE else 0
    of_prefill = prefill + before * parts
    pairs = prefill * (before + prefill / max(parts, 1) / 2)
    return Features(decodes + parts, prefill, decodes, decodes * context + of_prefill, of_prefill, pairs, parts)
