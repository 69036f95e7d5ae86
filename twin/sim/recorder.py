"""What a run leaves: a row a request, a row a step, and every inter-token time.

Steps of which each is one token for the same decoders make one row with `repeat`, whether they were walked one by one or
fast-forwarded: both ways write the same bytes. Rows are kept as numbers in arrays that grow, never as objects.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from twin.core.batch import Features
from twin.core.request import ABORTED, FINISHED, REJECTED, Request
from twin.core.state import State

INTEGER_COLUMNS = (
    "replica", "step", "repeat", "prefill_tokens", "decode_tokens", "sequences", "context_tokens", "waiting", "running",
    "swapped", "used_blocks", "cached_blocks", "free_blocks", "preempted", "swapped_in_blocks", "swapped_out_blocks",
    "held_tokens", "during_blocks",
)  # fmt: skip
NAN = float("nan")


Standing = tuple[int, int, int]  # how many wait, run, are swapped


def standing(state: State) -> Standing:
    """Who stands where."""
    return len(state.waiting), len(state.running), len(state.swapped)


class StepTable:
    """Rows of steps.parquet for one replica."""

    def __init__(self, replica: int) -> None:
        self.replica = replica
        self.numbers = array("q")  # INTEGER_COLUMNS, row after row
        self.start_s, self.end_s = array("d"), array("d")
        self.steps = 0
        self.after: tuple[int, ...] | None = None  # what the last row left behind, if equal steps may join it

    def add(
        self, state: State, during: Standing, features: Features, start_s: float, end_s: float, steps: int,
        during_blocks: int, preempted: int = 0, blocks_in: int = 0, blocks_out: int = 0,
    ) -> None:  # fmt: skip
        """`steps` equal steps have been done; `features` are those of the last of them, `during` who stood where."""
        pool = state.pool
        waiting, running, swapped = standing(state)
        free = pool.num_free
        cached = pool.num_cached_free
        first = self.steps + 1
        self.steps += steps
        plain = not (features.prefill_tokens or preempted or blocks_in or blocks_out)
        numbers = (
            self.replica, first, steps, features.prefill_tokens, features.decode_tokens, features.sequences,
            features.context_tokens, waiting, running, swapped, pool.num_blocks - free, cached, free - cached, preempted,
            blocks_in, blocks_out, state.held_tokens(), during_blocks,
        )  # fmt: skip
        joins = plain and self.after == (features.sequences, *during) and start_s == self.end_s[-1]
        self.after = (features.sequences, waiting, running, swapped) if plain else None
        if joins:
            width = len(INTEGER_COLUMNS)
            row = self.numbers[-width:]
            self.numbers[-width:] = array("q", (*row[:2], row[2] + steps, *numbers[3:]))
            self.end_s[-1] = end_s
            return
        self.numbers.extend(numbers)
        self.start_s.append(start_s)
        self.end_s.append(end_s)

    def columns(self) -> dict[str, np.ndarray]:
        table = np.frombuffer(self.numbers, dtype=np.int64).reshape(-1, len(INTEGER_COLUMNS))
        columns = {name: table[:, place].copy() for place, name in enumerate(INTEGER_COLUMNS)}
        start_s, end_s = np.array(self.start_s), np.array(self.end_s)
        return {**columns, "start_s": start_s, "duration_s": end_s - start_s}


class RequestTable:
    """Rows of requests.parquet: written when a request ends, by its row in the trace."""

    def __init__(self, rows: int) -> None:
        blank = np.full(rows, NAN)
        self.stamps = {name: array("d", blank.tobytes()) for name in STAMPS}
        zeros = np.zeros(rows, dtype=np.int64).tobytes()
        self.counts = {name: array("q", zeros) for name in COUNTS}
        self.status = ["unfinished"] * rows
        self.reason = [""] * rows
        self.open_samples: dict[int, int] = {}

    def arrived(self, request: Request) -> None:
        row = request.index
        self.stamps["arrival_s"][row] = request.arrival_s
        if request.samples > 1:
            self.open_samples[row] = request.samples

    def ended(self, request: Request, now: float) -> bool:
        """Write the row; False while samples of the same request are still under way."""
        self._write(request)
        self.stamps["finish_s"][request.index] = now
        row = request.index
        if row in self.open_samples and request.state in (FINISHED, ABORTED):
            self.open_samples[row] -= request.samples  # more than one if they never forked
            if self.open_samples[row] > 0:
                return False
        self.status[row] = request.state
        if request.state in (FINISHED, REJECTED, ABORTED):
            self.reason[row] = request.reason or ""
        return True

    def unfinished(self, request: Request) -> None:
        """It is still in the system when the run ends."""
        self._write(request)

    def _write(self, request: Request) -> None:
        row, stamps, counts = request.index, self.stamps, self.counts
        for name, value in (
            ("first_scheduled_s", request.first_scheduled_s), ("first_token_s", request.first_token_s),
        ):  # fmt: skip
            if value is not None and not stamps[name][row] <= value:
                stamps[name][row] = value
        counts["generated_tokens"][row] += request.generated
        counts["preemptions"][row] += request.preemptions
        counts["swap_outs"][row] += request.swap_outs
        counts["recomputed_tokens"][row] += request.recomputed_tokens
        if request.cached_tokens:
            counts["cached_tokens"][row] = request.cached_tokens


STAMPS = ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s")
COUNTS = ("generated_tokens", "cached_tokens", "preemptions", "swap_outs", "recomputed_tokens")


class TokenTimes:
    """Inter-token times, weighted: a decode step is one value for all its decoders."""

    def __init__(self) -> None:
        self.value_s, self.at_s = array("d"), array("d")
        self.count = array("q")

    def add(self, value_s: float, count: int, at_s: float) -> None:
        if count:
            self.value_s.append(value_s)
            self.count.append(count)
            self.at_s.append(at_s)

    def add_gaps(self, gaps: Sequence[float], at_s: float) -> None:
        for gap in gaps:
            self.add(gap, 1, at_s)

    def add_stretch(self, before_s: float, ends: Sequence[float], count: int) -> None:
        """Equal steps that end one after the other, the first of which began when a step ended at `before_s`."""
        if not count:
            return
        previous = before_s
        value_s = self.value_s
        for end in ends:
            value_s.append(end - previous)
            previous = end
        self.at_s.extend(ends)
        self.count.extend([count] * len(ends))

    def columns(self) -> dict[str, np.ndarray]:
        return {"itl_s": np.array(self.value_s), "itl_count": np.array(self.count), "itl_at_s": np.array(self.at_s)}


def request_columns(table: RequestTable, trace: Any) -> dict[str, Any]:
    """The columns of requests.parquet, stamps and counts beside what the trace asked for."""
    rows = len(trace)
    columns: dict[str, Any] = {
        "request_id": trace.ids(),
        "prompt_tokens": trace.prompt_tokens,
        "output_tokens": trace.output_tokens,
        "status": table.status,
        "reason": table.reason,
        "user": trace.user if trace.user is not None else [""] * rows,
        "session": trace.session if trace.session is not None else [""] * rows,
        "priority": trace.priority if trace.priority is not None else np.zeros(rows, dtype=np.int64),
        "replica": np.zeros(rows, dtype=np.int64),
        "deadline_s": trace.deadline_s if trace.deadline_s is not None else np.full(rows, NAN),
    }
    columns |= {name: np.array(values) for name, values in (table.stamps | table.counts).items()}
    if trace.n is not None:
        columns["n"] = trace.n
    return columns
