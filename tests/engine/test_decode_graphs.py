"""Padded decode steps on standing memory, as CUDA graphs replay them; here what would be recorded is computed anew."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.attention.reference import ReferenceAttention
from engine.decode_graphs import CudaRecorder, DecodeGraphs, sizes
from engine.kv_cache import KVCache
from engine.model.load import load_model
from engine.runner import ModelRunner
from engine.step_input import NO_ROW, StepInput
from engine.tiny import TINY
from twin.core import Request

BLOCKS, BLOCK_SIZE, MAX_CONTEXT = 40, 4, 32
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def computed_anew(launch: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
    """In place of a recording: the output stays where it is."""
    output = launch().clone()

    def replay() -> None:
        output.copy_(launch())

    return output, replay


def runner_on(device: str) -> ModelRunner:
    model = load_model(TINY, "fp32", device, max_len=64)
    cache = KVCache(TINY.layers, BLOCKS, BLOCK_SIZE, TINY.kv_heads, TINY.head_dim, torch.float32, device)
    cache.poison()
    return ModelRunner(model, cache, ReferenceAttention())


def step(query_lens: list[int], contexts: list[int], last_first: bool = False) -> StepInput:
    """Sequence i has the blocks 8 i ..., and tokens that follow from its position."""
    tables = np.arange(8 * len(contexts), dtype=np.int32).reshape(len(contexts), 8)
    for row, context in enumerate(contexts):
        tables[row, -(-context // BLOCK_SIZE) :] = -1
    owner = np.repeat(np.arange(len(contexts)), query_lens)
    start = np.concatenate(([0], np.cumsum(query_lens)))
    positions = np.concatenate([np.arange(end - rows, end) for rows, end in zip(query_lens, contexts, strict=True)])
    slots = tables[owner, positions // BLOCK_SIZE].astype(np.int64) * BLOCK_SIZE + positions % BLOCK_SIZE
    rows = start[1:].astype(np.int64) - 1
    requests = [Request(str(index), 0, 99, 1) for index in range(len(contexts))]
    return StepInput(
        (7 * positions + 31 * owner) % TINY.vocab, np.full(len(owner), NO_ROW), positions, slots, start.astype(np.int32),
        np.array(contexts, np.int32), tables, query_lens.count(1), query_lens, contexts, requests,
        rows[::-1].copy() if last_first else rows, requests,
    )  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count, last_first", [(1, False), (3, False), (5, True)])
def test_padded_steps_give_the_logits_of_plain_ones(device: str, count: int, last_first: bool) -> None:
    """5 sequences are padded to 6; step after step on the same memory, while contexts grow over a block's edge."""
    plain, graphed = runner_on(device), runner_on(device)
    record = CudaRecorder() if device == "cuda" else computed_anew
    graphed.graphs = DecodeGraphs(graphed, 6, MAX_CONTEXT, record)
    contexts = [3 + 2 * index for index in range(count)]
    for runner in (plain, graphed):
        runner.logits(step(contexts, contexts))  # the prompts
    for _ in range(6):
        contexts = [context + 1 for context in contexts]
        now = step([1] * count, contexts, last_first)
        assert graphed.graphs.serves(now)
        torch.testing.assert_close(graphed.logits(now), plain.logits(now), rtol=1e-5, atol=1e-5)
    assert len(graphed.graphs.graphs) == 1


def test_padding_writes_nothing_and_reads_nothing() -> None:
    """eng-01: a batch of 5 padded to 8; the last slot of the pool keeps its sentinel. eng-02: rows of no context, no NaN."""
    runner = runner_on("cpu")
    runner.graphs = DecodeGraphs(runner, 8, MAX_CONTEXT, computed_anew)
    runner.graphs.sizes = [8]
    runner.logits(step([4] * 5, [4] * 5))
    before = runner.cache.data.clone()
    sentinel = runner.cache.data[:, :, BLOCKS - 1, -1].fill_(123.0).clone()
    assert runner.logits(step([1] * 5, [5] * 5)).isfinite().all()
    assert torch.equal(runner.cache.data[:, :, BLOCKS - 1, -1], sentinel)
    changed = {8 * index + 1 for index in range(5)}  # the second block of each sequence
    same = [block for block in range(BLOCKS - 1) if block not in changed]
    assert torch.equal(runner.cache.data[:, :, same].nan_to_num(9.0), before[:, :, same].nan_to_num(9.0))
    graph = next(iter(runner.graphs.graphs.values()))
    assert graph.logits[5:].isfinite().all()


def test_what_is_no_pure_decode_step_is_not_served() -> None:
    graphs = DecodeGraphs(runner_on("cpu"), 4, MAX_CONTEXT, computed_anew)
    assert graphs.serves(step([1] * 4, [5] * 4))
    assert not graphs.serves(step([1, 3], [5, 3])) and not graphs.serves(step([1] * 5, [5] * 5))


def test_contexts_of_different_length_have_graphs_of_their_own() -> None:
    runner = runner_on("cpu")
    runner.graphs = DecodeGraphs(runner, 2, MAX_CONTEXT, computed_anew)
    runner.graphs.contexts = [8, MAX_CONTEXT]
    runner.logits(step([8, 20], [8, 20]))
    for contexts in ([4, 7], [8, 8], [7, 21]):
        runner.logits(step([1, 1], contexts))
    assert sorted(runner.graphs.graphs) == [(2, 8), (2, MAX_CONTEXT)]


@pytest.mark.parametrize("most", [1, 3, 8, 100, 256, 1000])
def test_sizes_ascend_to_the_most_there_may_be(most: int) -> None:
    assert sizes(most) == sorted(set(sizes(most))) and sizes(most)[-1] == most and len(sizes(most)) < 60


def test_where_memory_does_not_suffice_steps_are_computed_without_a_graph() -> None:
    """The third recording fails: what is recorded serves on, and nothing more is tried."""
    runner, tried = runner_on("cpu"), []

    def short_of_memory(launch: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        tried.append(launch)
        if len(tried) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return computed_anew(launch)

    graphs = runner.graphs = DecodeGraphs(runner, 8, MAX_CONTEXT, short_of_memory)
    runner.logits(step([8] * 5, [8] * 5))
    assert graphs.serves(step([1], [8])) and graphs.serves(step([1] * 2, [8] * 2))
    with pytest.warns(UserWarning, match="no memory for the CUDA graph of 4 sequences"):
        assert not graphs.serves(step([1] * 3, [8] * 3))
    assert not graphs.serves(step([1] * 5, [8] * 5)) and graphs.serves(step([1], [7])) and len(tried) == 3
    assert runner.logits(step([1] * 3, [8] * 3)).isfinite().all()
