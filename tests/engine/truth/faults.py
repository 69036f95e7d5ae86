"""Faults on purpose: NaN in what one sequence writes, and forward passes that find no memory."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from engine.attention.base import AttentionBatch
from engine.attention.torch_backend import TorchAttention
from engine.executor import Executor
from engine.step_input import StepInput
from tests.engine.truth.stepped import SteppedEngine
from twin.core.batch import Batch
from twin.core.request import Request


class NanAttention(TorchAttention):
    """Writes NaN in place of the keys and values of one sequence of the step."""

    sequence: int | None = None

    def write(self, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, *scales: Tensor) -> None:
        if self.sequence is not None:
            start, end = batch.query_start[self.sequence : self.sequence + 2].tolist()
            k, v = k.clone(), v.clone()
            k[start:end] = v[start:end] = torch.nan
        super().write(k, v, k_cache, v_cache, batch, *scales)


class Faults:
    """What goes wrong in the runs of an engine.

    `nan` (row, context): that request writes NaN in the step in which it first comes to a context of so many tokens.
    `out_of_memory`: numbers of forward passes, from 0.
    """

    def __init__(
        self, ours: SteppedEngine, nan: tuple[int, int] | None = None, out_of_memory: Collection[int] = ()
    ) -> None:  # fmt: skip
        self.nan, self.out_of_memory = nan, out_of_memory
        self.passes: list[list[int]] = []  # rows of the trace in each forward pass
        self.attention = ours.runner.attention = NanAttention()
        self._logits = ours.runner.logits
        self._members: dict[int, list[Request]] = {}
        ours.prepare = self._attach
        ours.runner.logits = self._compute  # type: ignore[method-assign]

    def _attach(self, executor: Executor) -> None:
        make = executor.inputs.make

        def watched(batch: Batch, places: dict[Request, int]) -> StepInput:
            step = make(batch, places)
            self._members[id(step)] = [request for request, _ in sorted(batch.scheduled, key=lambda member: member[1] > 1)]
            return step

        executor.inputs.make = watched  # type: ignore[method-assign]

    def _compute(self, step: StepInput, previous: Tensor | None = None) -> Tensor:
        rows = [request.index for request in self._members.pop(id(step))]
        self.passes.append(rows)
        if len(self.passes) - 1 in self.out_of_memory:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        self.attention.sequence = None
        if self.nan in zip(rows, step.contexts, strict=True):
            self.attention.sequence, self.nan = rows.index(self.nan[0]), None
        return self._logits(step, previous)
