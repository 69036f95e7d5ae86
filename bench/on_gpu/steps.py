"""Decode steps of sequences whose keys and values are random."""

from __future__ import annotations

import numpy as np

from engine.runner import ModelRunner
from engine.step_input import NO_ROW, StepInput
from twin.core.limits import blocks_for


def decode_step(runner: ModelRunner, contexts: list[int], seed: int = 0) -> StepInput:
    """One token of each of the sequences, up to `contexts`; their blocks lie scattered, for a seed always the same."""
    cache, count = runner.cache, len(contexts)
    random = np.random.default_rng(seed)
    width = cache.num_blocks // count
    needed = [blocks_for(context, cache.block_size) for context in contexts]
    assert max(needed) <= width, "the pool is too small"
    tables = random.permutation(cache.num_blocks)[: count * width].reshape(count, width).astype(np.int32)
    for row, used in enumerate(needed):
        tables[row, used:] = -1
    tables = tables[:, : max(needed)]
    positions = np.array(contexts, np.int64) - 1
    blocks = tables[np.arange(count), positions // cache.block_size].astype(np.int64)
    return StepInput(
        token_ids=random.integers(0, runner.model.config.vocab, count), in_flight=np.full(count, NO_ROW, np.int64),
        positions=positions, slots=blocks * cache.block_size + positions % cache.block_size,
        query_start=np.arange(count + 1, dtype=np.int32), context_lens=np.array(contexts, np.int32), block_tables=tables,
        num_decodes=count, query_lens=[1] * count, contexts=contexts, requests=[], logit_rows=np.arange(count), yielding=[],
    )  # fmt: skip
