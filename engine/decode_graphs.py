"""CUDA graphs of decode steps: hundreds of kernels launched by one call.

A graph is recorded for a batch size and a longest context, both rounded up, and replayed on the same memory: a step copies
its inputs there, padded, and finds its logits there. Rows of padding have context 0 and slot -1: they read nothing, write
nothing, and nobody looks at their logits. What depends on host integers (how attention splits long contexts) is fixed when
a graph is recorded, which is why graphs differ by context too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.attention.base import AttentionBatch
from engine.runner import ModelRunner
from engine.step_input import StepInput

Launch = Callable[[], Tensor]
Recorder = Callable[[Launch], tuple[Tensor, Callable[[], None]]]  # -> where the output is, and what computes it anew
CONTEXTS = (1024, 4096, 16384, 65536)  # tokens; the longest of all is the limit of the model
WARM_UP = 2  # launches before recording: kernels are compiled, libraries allocate


def sizes(most: int) -> list[int]:
    """Batch sizes that graphs are recorded for: 1, 2, 4, 8, then in steps of 8 up to 64, of 16 up to 256, of 64."""
    wanted = [1, 2, 4, *range(8, 65, 8), *range(80, 257, 16), *range(320, most + 64, 64)]
    return [size for size in wanted if size < most] + [most]


class Recorded(NamedTuple):
    """A graph, and the memory that it works on."""

    token_ids: Tensor
    batch: AttentionBatch
    logits: Tensor  # fp32 [size, vocab]
    replay: Callable[[], None]


class DecodeGraphs:
    """Graphs are recorded when they are first needed. `record` is `recorded_on_cuda`, or something that a test can run."""

    def __init__(self, runner: ModelRunner, max_sequences: int, max_context: int, record: Recorder) -> None:
        self.runner, self.record = runner, record
        self.sizes = sizes(max_sequences)
        self.contexts = [limit for limit in CONTEXTS if limit < max_context] + [max_context]
        self.block_size = runner.cache.block_size
        self.graphs: dict[tuple[int, int], Recorded] = {}

    def serves(self, step: StepInput) -> bool:
        """Pure decode steps, each sequence of which wants its logits."""
        sequences = len(step.query_lens)
        return step.num_decodes == sequences == len(step.logit_rows) and sequences <= self.sizes[-1]

    def logits(self, step: StepInput, token_ids: Tensor) -> Tensor:
        """fp32 [sequences, vocab], valid until the next step; token_ids int64 [sequences]."""
        count = len(step.query_lens)
        size = next(size for size in self.sizes if size >= count)
        longest = max(step.contexts)
        context = next((limit for limit in self.contexts if limit >= longest), self.contexts[-1])
        graph = self.graphs.get((size, context))
        if graph is None:
            graph = self.graphs[size, context] = self._record(size, context)
        self._fill(graph, step, token_ids)
        graph.replay()
        return graph.logits[self.runner.to_device(step.logit_rows)]

    def _record(self, size: int, context: int) -> Recorded:
        device = self.runner.device
        width = -(-context // self.block_size)
        ids = torch.zeros(size, dtype=torch.int64, device=device)
        batch = AttentionBatch(
            query_start=torch.arange(size + 1, dtype=torch.int32, device=device),
            context_lens=torch.zeros(size, dtype=torch.int32, device=device),
            block_tables=torch.full((size, width), -1, dtype=torch.int32, device=device),
            slots=torch.full((size,), -1, dtype=torch.int64, device=device),
            positions=torch.zeros(size, dtype=torch.int64, device=device),
            num_decodes=size, query_lens=[1] * size, contexts=[context] * size,
        )  # fmt: skip
        runner = self.runner

        @torch.inference_mode()
        def launch() -> Tensor:
            return runner.model.logits(runner.model.forward(ids, batch, runner.cache, runner.attention))

        logits, replay = self.record(launch)
        return Recorded(ids, batch, logits, replay)

    def _fill(self, graph: Recorded, step: StepInput, token_ids: Tensor) -> None:
        """The step's inputs, and padding behind them."""
        count, size = len(step.query_lens), len(graph.token_ids)
        to_device = self.runner.to_device
        graph.token_ids[:count].copy_(token_ids)
        batch = graph.batch
        width = min(step.block_tables.shape[1], batch.block_tables.shape[1])
        tables = np.full((size, width), -1, np.int32)
        tables[:count] = step.block_tables[:, :width]
        batch.block_tables[:, :width].copy_(to_device(tables))
        padded = np.full((3, size), -1, np.int64)
        padded[:, :count] = step.slots, step.positions, step.context_lens
        padded[1:, count:] = 0
        slots, positions, contexts = to_device(padded)
        batch.slots.copy_(slots)
        batch.positions.copy_(positions)
        batch.context_lens.copy_(contexts)


def recorded_on_cuda(launch: Launch) -> tuple[Tensor, Callable[[], None]]:
    """The output of a launch that is recorded as a CUDA graph, and what replays it. (Not run where this was written.)"""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            launch()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = launch()
    return output, graph.replay
