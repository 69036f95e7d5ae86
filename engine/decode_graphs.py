"""CUDA graphs of decode steps: hundreds of kernels launched by one call.

A graph is recorded for a batch size and a longest context, both rounded up, and replayed on the same memory: a step copies
its inputs there, padded, and finds its logits there. Rows of padding have context 0 and slot -1: they read nothing, write
nothing, and nobody looks at their logits. What depends on host integers (how attention splits long contexts) is fixed when
a graph is recorded, which is why graphs differ by context too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.attention.base import AttentionBatch
from engine.runner import ModelRunner
from engine.step_input import StepInput

Launch = Callable[[], Tensor]  # -> logits fp32 [size, vocab]
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
    """Graphs are recorded when they are first needed. `record` is a `CudaRecorder`, or something that a test can run."""

    def __init__(self, runner: ModelRunner, max_sequences: int, max_context: int, record: Recorder) -> None:
        self.runner, self.record = runner, record
        self.sizes = sizes(max_sequences)
        self.contexts = [limit for limit in CONTEXTS if limit < max_context] + [max_context]
        self.block_size = runner.cache.block_size
        self.graphs: dict[tuple[int, int], Recorded] = {}
        self.given_up = False  # memory did not suffice for one more: what is not recorded is computed without

    def serves(self, step: StepInput) -> bool:
        """Pure decode steps, each sequence of which wants its logits, as far as there is memory for their graph."""
        sequences = len(step.query_lens)
        if step.num_decodes != sequences or sequences != len(step.logit_rows) or sequences > self.sizes[-1]:
            return False
        if self._key(step) not in self.graphs and not self.given_up:
            self._try_to_record(*self._key(step))
        return self._key(step) in self.graphs

    def logits(self, step: StepInput, token_ids: Tensor) -> Tensor:
        """fp32 [sequences, vocab] of a step that is served; token_ids int64 [sequences]."""
        graph = self.graphs[self._key(step)]
        self._fill(graph, step, token_ids)
        graph.replay()
        return graph.logits[self.runner.to_device(step.logit_rows)]

    def _key(self, step: StepInput) -> tuple[int, int]:
        """Batch size and context of the graph that serves the step."""
        count, longest = len(step.query_lens), max(step.contexts)
        assert longest <= self.contexts[-1], f"a context of {longest} tokens, graphs reach {self.contexts[-1]}"
        return (
            next(size for size in self.sizes if size >= count),
            next(limit for limit in self.contexts if limit >= longest),
        )

    def _try_to_record(self, size: int, context: int) -> None:
        try:
            self.graphs[size, context] = self._record(size, context)
        except torch.OutOfMemoryError:
            self.given_up = True
            warnings.warn(
                f"no memory for the CUDA graph of {size} sequences: decode steps without a graph so far are slower "
                f"(cache.gpu_memory_utilization leaves room for them)",
                stacklevel=2,
            )

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


class CudaRecorder:
    """Records launches as CUDA graphs, which share one pool of memory. Not yet run on a GPU."""

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, launch: Launch) -> tuple[Tensor, Callable[[], None]]:
        """The output of a launch, and what computes it anew."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                launch()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            output = launch()
        return output, graph.replay
