"""From a batch of the scheduler to the arrays of a step.

Sequences with one row come first, as attention wants them. The last token of a decoding sequence may still be in flight
(asynchronous scheduling): then its id is taken on the device from the tokens of the step before, by their place there.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.block_tables import BlockTables
from engine.sequences import Sequences
from twin.core.batch import Batch
from twin.core.limits import blocks_for
from twin.core.request import Request

Ints = NDArray[np.int64]
NO_ROW = -1


@dataclass(slots=True)
class StepInput:
    """What the model is given, on the host. Rows are tokens, the sequences' one after the other."""

    token_ids: Ints  # [rows]; 0 where the token is in flight
    in_flight: Ints  # [rows], place among the tokens of the step before, NO_ROW where the id is known
    positions: Ints  # [rows]
    slots: Ints  # [rows]
    query_start: NDArray[np.int32]  # [sequences + 1]
    context_lens: NDArray[np.int32]  # [sequences]
    block_tables: NDArray[np.int32]  # [sequences, most blocks of one of them]
    num_decodes: int
    query_lens: list[int]
    contexts: list[int]
    requests: list[Request]  # [sequences], whose each is
    logit_rows: Ints  # [tokens to choose], the row whose logits each is chosen by; samples of one prompt share a row
    yielding: list[Request]  # [tokens to choose], whose they are; beams come last

    @property
    def any_in_flight(self) -> bool:
        return bool((self.in_flight != NO_ROW).any())

    def written_blocks(self, block_size: int) -> set[int]:
        return set((self.slots // block_size).tolist())

    def readers_of(self, blocks: set[int], block_size: int) -> Iterator[Request]:
        """Who reads from one of these blocks what was written before this step."""
        tables = self.block_tables.tolist()
        for request, table, context, rows in zip(self.requests, tables, self.contexts, self.query_lens, strict=True):
            if not blocks.isdisjoint(table[: blocks_for(context - rows, block_size)]):
                yield request


class StepInputs:
    """Makes them, batch by batch."""

    def __init__(self, block_size: int, sequences: Sequences) -> None:
        self.block_size, self.sequences = block_size, sequences
        self.tables = BlockTables()

    def make(self, batch: Batch, places: dict[Request, int]) -> StepInput:
        """`places`: of the requests that yield in the step before, among its tokens. The batch has just been launched."""
        self.tables.begin(batch)
        members = sorted(batch.scheduled, key=_rows_beyond_one)  # stable: running order within both parts
        counts = [tokens for _, tokens in members]
        query_lens = np.array(counts, np.int64)
        contexts = np.array([request.computed for request, _ in members], np.int64)
        query_start = np.zeros(len(members) + 1, np.int64)
        np.cumsum(query_lens, out=query_start[1:])
        sequence_of_row = np.repeat(np.arange(len(members)), query_lens)
        first = contexts - query_lens
        positions = np.arange(query_start[-1]) - (query_start[:-1] - first)[sequence_of_row]
        rows = np.array([self.tables.row(request) for request, _ in members])
        width = max(1, int(contexts.max() + self.block_size - 1) // self.block_size)
        block_tables = self.tables.array[rows, :width]
        blocks = block_tables[sequence_of_row, positions // self.block_size].astype(np.int64)
        assert (blocks >= 0).all(), "a token without a block"
        token_ids, in_flight = self._tokens(members, first.tolist(), places)
        last_row = {request: end - 1 for (request, _), end in zip(members, query_start[1:].tolist(), strict=True)}
        yielding = sorted(self._yielding(batch, last_row), key=_is_beam)
        logit_rows = [last_row[request if request in last_row else request.siblings[0]] for request in yielding]
        return StepInput(
            token_ids, in_flight, positions, blocks * self.block_size + positions % self.block_size,
            query_start.astype(np.int32), contexts.astype(np.int32), block_tables, counts.count(1), counts,
            contexts.tolist(), [request for request, _ in members], np.array(logit_rows, np.int64), yielding,
        )  # fmt: skip

    def _yielding(self, batch: Batch, scheduled: Container[Request]) -> list[Request]:
        """Who gets a token of this step: also the samples that have just been forked, by the logits of their prompt."""
        forked = [aside.request for aside in batch.asides if aside.yields and aside.request not in scheduled]
        for request in forked:
            self.sequences.fork(request, request.siblings[0])
        return [*batch.yielding, *forked]

    def _tokens(self, members: list[tuple[Request, int]], first: list[int], places: dict[Request, int]) -> tuple[Ints, Ints]:
        ids: list[int] = []
        in_flight: list[int] = []
        for (request, count), start in zip(members, first, strict=True):
            known = self.sequences.of(request).tokens
            ids += known[start : start + count]
            missing = start + count - len(known)
            in_flight += [NO_ROW] * (count - max(0, missing))
            if missing > 0:
                assert missing == 1, f"request {request.id}: {missing} tokens that nobody knows"
                ids.append(0)
                in_flight.append(places[request])
        return np.array(ids, np.int64), np.array(in_flight, np.int64)


def _is_beam(request: Request) -> bool:
    return request.beams is not None


def _rows_beyond_one(member: tuple[Request, int]) -> bool:
    return member[1] > 1
