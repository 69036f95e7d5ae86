"""Block tables as rows of one array, kept up to date by what has changed.

A request's table grows at its end; anything else that happens to it (a copy before a write, a way back from the host, a new
life after a preemption) is told by the batch, and its row is written anew. So a decode step costs the blocks handed out in
it, not the length of all contexts.
"""

from __future__ import annotations

import numpy as np

from twin.core.batch import Batch
from twin.core.request import Request


class BlockTables:
    """A row for each request that was scheduled lately; -1 where it has no block."""

    def __init__(self, rows: int = 64, width: int = 64) -> None:
        self.array = np.full((rows, width), -1, np.int32)
        self._row: dict[Request, int] = {}
        self._length: dict[Request, int] = {}
        self._free = list(range(rows - 1, -1, -1))

    def begin(self, batch: Batch) -> None:
        """Forget the rows of those whose tables have changed otherwise than by growing."""
        for request in (*batch.preempted, *batch.admitted, *batch.swapped_in):
            self._length.pop(request, None)
        for request, _ in batch.chunks:
            if request.siblings:  # samples copy before they write, beams change places
                self._length.pop(request, None)

    def row(self, request: Request) -> int:
        """The index of its row, which shows its table as it is now."""
        row = self._row.get(request)
        if row is None:
            row = self._row[request] = self._take_row()
        table = request.block_table
        known, length = self._length.get(request, 0), len(table)
        if length != known:
            if length > self.array.shape[1]:
                self._widen(length)
            self.array[row, known:length] = table[known:]
            if known == 0:
                self.array[row, length:] = -1
            self._length[request] = length
        return row

    def end(self, request: Request) -> None:
        row = self._row.pop(request, None)
        self._length.pop(request, None)
        if row is not None:
            self._free.append(row)

    def _take_row(self) -> int:
        if not self._free:
            rows = len(self.array)
            self.array = np.concatenate([self.array, np.full_like(self.array, -1)])
            self._free = list(range(2 * rows - 1, rows - 1, -1))
        return self._free.pop()

    def _widen(self, length: int) -> None:
        wider = np.full((len(self.array), max(length, 2 * self.array.shape[1])), -1, np.int32)
        wider[:, : self.array.shape[1]] = self.array
        self.array = wider
