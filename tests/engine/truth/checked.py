"""A runner that knows, slot by slot, what should lie there: a debugging aid for tests under pressure.

Each slot has a tag: the hash of the whole text up to the token whose K and V lie in it. Tags go where blocks go (out, in,
copies). Before a step computes, every position that it may read is looked up in the sequence's own table; its tag must be
that of the sequence's own text. So a block that was given to somebody else while still in use is seen at once, even where
tokens would happen to come out right. Blocks that are in no table of the step are NaN while it computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

import torch
from torch import Tensor

from engine.executor import Executor
from engine.runner import ModelRunner
from engine.step_input import StepInput
from twin.core.batch import Batch
from twin.core.request import Request

NOBODY = None
Tag = int | None


class CheckedRunner(ModelRunner):
    """Made of an engine's own runner; `attach` it to the executor of each run."""

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__(runner.model, runner.cache, runner.attention)
        self._apply = self.cache.apply
        self.cache.apply = self._move  # type: ignore[method-assign]
        self.reads = 0  # positions that were looked up

    def attach(self, executor: Executor) -> None:
        """A new run: nothing is written yet."""
        size = self.cache.block_size
        self.tags: list[Tag] = [NOBODY] * (self.cache.num_blocks * size)
        self.host_tags: list[Tag] = [NOBODY] * (self.cache.num_host_blocks * size)
        self.texts: dict[int, list[list[int]]] = {}  # of the sequences of a step in flight, as far as they are known
        make = executor.inputs.make

        def watched(batch: Batch, places: dict[Request, int]) -> StepInput:
            step = make(batch, places)
            members = sorted(batch.scheduled, key=lambda member: member[1] > 1)
            self.texts[id(step)] = [list(executor.sequences.of(request).tokens) for request, _ in members]
            return step

        executor.inputs.make = watched  # type: ignore[method-assign]

    def _move(self, transfers: Iterable[tuple[str, int, int]]) -> None:
        transfers = list(transfers)
        size = self.cache.block_size
        for way, source, target in transfers:
            from_ = self.host_tags if way == "in" else self.tags
            to = self.host_tags if way == "out" else self.tags
            to[target * size : target * size + size] = from_[source * size : source * size + size]
        self._apply(transfers)

    @torch.inference_mode()
    def logits(self, step: StepInput, previous_tokens: Tensor | None = None) -> Tensor:
        ids = self.token_ids(step, previous_tokens).tolist()
        wanted = [
            tags_of([*text[: context - count], *ids[start : start + count]])
            for text, context, count, start in zip(
                self.texts.pop(id(step)), step.contexts, step.query_lens, step.query_start.tolist(), strict=False
            )
        ]
        for tags, count, start in zip(wanted, step.query_lens, step.query_start.tolist(), strict=False):
            for tag, slot in zip(tags[-count:], step.slots[start : start + count].tolist(), strict=True):
                self.tags[slot] = tag
        self._check(step, wanted)
        foreign = sorted(set(range(self.cache.num_blocks)) - set(step.block_tables.ravel().tolist()))
        hidden = self.cache.data[:, :, foreign]
        self.cache.data[:, :, foreign] = float("nan")
        logits = super().logits(step, previous_tokens)
        self.cache.data[:, :, foreign] = hidden
        return logits

    def _check(self, step: StepInput, wanted: list[list[int]]) -> None:
        size = self.cache.block_size
        for table, tags in zip(step.block_tables.tolist(), wanted, strict=True):
            assert len(set(table) - {-1}) == len(table) - table.count(-1), "a block twice in one table"
            slots = [table[position // size] * size + position % size for position in range(len(tags))]
            assert [self.tags[slot] for slot in slots] == tags, "a block holds somebody else's text"
            self.reads += len(tags)


def tags_of(tokens: list[int]) -> list[int]:
    """Of each position the hash of the text up to it."""
    return list(accumulate(tokens, lambda tag, token: hash((tag, token)), initial=0))[1:]
