"""Every decision of a run, a step a line, in the format of scenario files.

A row is complete when its step leaves the queue of steps in flight: tables, reference counts and free blocks are as after
it, finished requests released.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twin.core.batch import Batch
from twin.core.request import ENDED, Request
from twin.core.scheduler import Scheduler


class DecisionLog:
    """Turns batches into rows. `emit` gets each row.

    With `keep`, what a scenario tells of each sequence at the end is kept too: memory for all of the trace.
    """

    def __init__(self, scheduler: Scheduler, emit: Callable[[dict[str, Any]], None], keep: bool = False) -> None:
        self.scheduler, self.emit, self.keep = scheduler, emit, keep
        self.token_times_s: dict[str, list[float]] = {}  # by sequence, if kept
        self.sequences: list[Request] = []  # those that have ended, if kept
        self.steps = 0
        self.rows: dict[Batch, dict[str, Any]] = {}  # of the batches in flight

    def planned(self, batch: Batch, planned_s: float, start_s: float, end_s: float) -> None:
        """A batch was launched. One that neither schedules nor preempts is not a step."""
        if batch.empty and not batch.preempted:
            return
        self.steps += 1
        row: dict[str, Any] = {
            "step": self.steps,
            "start_s": start_s,
            "end_s": end_s,
            "scheduled": {request.id: tokens for request, tokens in batch.scheduled},
            "admitted": [request.id for request in batch.admitted],
            "preempted": {request.id: mode for request, mode in batch.preempted.items()},
            "swapped_in": [request.id for request in batch.swapped_in],
            "outputs": {},
            "finished": [],
            "cached_tokens": {
                request.id: request.computed - tokens for request, tokens in batch.chunks if request in batch.admitted
            },
        }
        if self.scheduler.rules.async_scheduling and not batch.empty:
            row["planned_s"] = planned_s
        self.rows[batch] = row

    def landing(self, batch: Batch, now: float, aborted: list[Request]) -> None:
        """The batch is about to land: whose tokens it brings."""
        row = self.rows.get(batch)
        if row is None:
            return
        members = [*batch.yielding, *(aside.request for aside in batch.asides if aside.yields)]
        for request in members:
            if request.state not in ENDED and request not in aborted and request.id not in row["outputs"]:
                row["outputs"][request.id] = 1
                if self.keep:
                    self.token_times_s.setdefault(request.id, []).append(now)

    def ended(self, request: Request) -> None:
        """A sequence has ended, in whatever way."""
        if self.keep:
            self.sequences.append(request)

    def landed(self, batch: Batch, ended: list[Request]) -> dict[str, Any] | None:
        """The batch has landed: its row, ready for `emit`; None for what is not a step."""
        row = self.rows.pop(batch, None)
        if row is None:
            return None
        state = self.scheduler.state
        tables: dict[str, list[int]] = {}
        references: dict[str, int] = {}
        holders = (*state.running, *state.swapped, *state.paused)
        for request in sorted(holders, key=lambda request: (request.index, request.id)):
            tables[request.id] = list(request.block_table)
            for block in request.block_table:
                if block is not None:
                    references[str(block)] = references.get(str(block), 0) + 1
        row["finished"] = [request.id for request in ended]
        row["block_tables"] = tables
        row["ref_counts"] = dict(sorted(references.items(), key=lambda item: int(item[0])))
        row["free_blocks"] = state.pool.num_free
        row["copies"] = [list(copy) for copy in batch.copies]
        return row
