"""What a run leaves: a row a request, a row a step, and every inter-token time.

Steps of which each is one token for the same decoders make one row with `repeat`, whether they were walked one by one or
fast-forwarded: both ways write the same bytes. Rows are kept as numbers in arrays that grow, never as objects.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from twin.core.batch import Batch
from twin.core.request import ABORTED, FINISHED, Request
from twin.core.state import State
from twin.sim.arrivals import Workload

NUMBERS = (
    "repeat", "prefill_tokens", "decode_tokens", "sequences", "context_tokens", "waiting", "running", "swapped",
    "used_blocks", "cached_blocks", "peak_blocks", "block_steps", "token_steps", "preempted", "swapped_in_blocks",
    "swapped_out_blocks",
)  # fmt: skip
WIDTH = len(NUMBERS)
SUMS = [NUMBERS.index(name) for name in ("block_steps", "token_steps")]  # of a row that grows by a step
PEAK = NUMBERS.index("peak_blocks")  # what stands before it (but `repeat`) is as after the row's last step
MOST_ROWS = 4096
NAN = float("nan")

Held = tuple[int, int, int]  # while steps ran: most blocks, blocks summed over the steps, tokens likewise
Standing = tuple[int, int, int]  # how many wait, run, are swapped
Footing = tuple[int, int, int, int]  # sequences in the step, and the same


def standing(state: State) -> Standing:
    """Who stands where."""
    return len(state.waiting), len(state.running), len(state.swapped)


class StepTable:
    """Rows of steps.parquet for one replica.

    Steps of pure decoding that follow each other without a gap, each with the same sequences and begun as the one before
    left everybody standing, are one row: its counts are those after its last step, its `repeat` says how many they were.
    Without `merge` every step is a row, as a real engine needs it, whose steps are never equal.
    """

    def __init__(self, replica: int, num_blocks: int, merge: bool = True) -> None:
        self.replica, self.num_blocks, self.merge = replica, num_blocks, merge
        self.rows: list[tuple[int, ...]] = []  # NUMBERS each, the last ones; the last may still grow
        self.numbers = array("q")  # those before, row after row
        self.start_s, self.end_s = array("d"), array("d")
        self.steps = 0
        self.after: Footing | None = None  # what the last row left, which equal steps would continue

    def add_stretch(
        self, state: State, sequences: int, context: int, start_s: float, end_s: float, stretch: Held, steps: int, left: int
    ) -> None:
        """`steps` decode steps have been done, with the last of which so many requests left; `context` is after it."""
        waiting, running, swapped = len(state.waiting), len(state.running), len(state.swapped)
        pool = state.pool
        numbers = (
            steps, 0, sequences, sequences, context, waiting, running, swapped, self.num_blocks - pool.num_free,
            pool.num_cached_free if pool.caches else 0, *stretch, 0, 0, 0,
        )  # fmt: skip
        self._write(numbers, start_s, end_s, (sequences, waiting, running + left, swapped))
        self.after = (sequences, waiting, running, swapped)

    def add_step(
        self, state: State, batch: Batch, during: Standing, start_s: float, end_s: float, blocks: int, tokens: int
    ) -> None:
        """One step, whatever it did; so many blocks were held while it ran, and so many tokens in them."""
        waiting, running, swapped = standing(state)
        features, pool, preempted = batch.features, state.pool, len(batch.preempted)
        blocks_in, blocks_out = batch.swapped_in_blocks, batch.swapped_out_blocks
        prefill = decode = sequences = context = 0
        if features is not None:
            sequences, prefill, decode, context, *_ = features
        numbers = (
            1, prefill, decode, sequences, context, waiting, running, swapped, self.num_blocks - pool.num_free,
            pool.num_cached_free if pool.caches else 0, blocks, blocks, tokens, preempted,
            blocks_in, blocks_out,
        )  # fmt: skip
        plain = self.merge and not (prefill or preempted or blocks_in or blocks_out)
        self._write(numbers, start_s, end_s, (sequences, *during) if plain else None)
        self.after = (sequences, waiting, running, swapped) if plain else None

    def _write(self, numbers: tuple[int, ...], start_s: float, end_s: float, continues: Footing | None) -> None:
        self.steps += numbers[0]
        rows = self.rows
        if continues is not None and continues == self.after and start_s == self.end_s[-1]:
            last = rows[-1]
            row = [last[0] + numbers[0], *numbers[1:]]
            row[PEAK] = max(last[PEAK], numbers[PEAK])
            for place in SUMS:
                row[place] = last[place] + numbers[place]
            rows[-1] = tuple(row)
            self.end_s[-1] = end_s
            return
        if len(rows) > MOST_ROWS:
            self._pack()
        rows.append(numbers)
        self.start_s.append(start_s)
        self.end_s.append(end_s)

    def _pack(self) -> None:
        """Rows as plain numbers take a quarter of the memory."""
        self.numbers.frombytes(np.array(self.rows, dtype=np.int64).tobytes())
        self.rows.clear()

    def columns(self) -> dict[str, np.ndarray]:
        """The columns by name; the rows' integers as they were added, what follows from them made here."""
        if self.rows:
            self._pack()
        table = np.frombuffer(self.numbers, dtype=np.int64).reshape(-1, WIDTH)
        columns = {name: table[:, place].copy() for place, name in enumerate(NUMBERS)}
        columns["replica"] = np.full(len(table), self.replica)
        columns["step"] = np.cumsum(columns["repeat"]) - columns["repeat"] + 1
        columns["free_blocks"] = self.num_blocks - columns["used_blocks"] - columns["cached_blocks"]
        columns["start_s"] = np.array(self.start_s)
        columns["duration_s"] = np.array(self.end_s) - columns["start_s"]
        return columns


class RequestTable:
    """Rows of requests.parquet: written when a request ends, by its row in the trace."""

    def __init__(self, rows: int) -> None:
        blank, zeros = np.full(rows, NAN).tobytes(), bytes(8 * rows)
        self.arrival_s, self.first_scheduled_s = array("d", blank), array("d", blank)
        self.first_token_s, self.finish_s = array("d", blank), array("d", blank)
        self.generated_tokens, self.cached_tokens = array("q", zeros), array("q", zeros)
        self.preemptions, self.swap_outs = array("q", zeros), array("q", zeros)
        self.recomputed_tokens = array("q", zeros)
        self.deadline_s = array("d", blank)
        self.status = ["unfinished"] * rows
        self.reason = [""] * rows
        self.open_samples: dict[int, int] = {}

    def arrived(self, request: Request) -> None:
        row = request.index
        self.arrival_s[row] = request.arrival_s
        if request.deadline_s is not None:
            self.deadline_s[row] = request.deadline_s
        if request.samples > 1:
            self.open_samples[row] = request.samples

    def ended(self, request: Request, now: float) -> bool:
        """Write the row; False while samples of the same request are still under way."""
        self.write(request)
        row = request.index
        self.finish_s[row] = now
        if row in self.open_samples and request.state in (FINISHED, ABORTED):
            self.open_samples[row] -= request.samples  # more than one if they never forked
            if self.open_samples[row] > 0:
                return False
        self.status[row] = request.state
        self.reason[row] = request.reason or ""
        return True

    def write(self, request: Request) -> None:
        """What is known of a request, or of one of its samples."""
        row = request.index
        if request.first_scheduled_s is not None and not self.first_scheduled_s[row] <= request.first_scheduled_s:
            self.first_scheduled_s[row] = request.first_scheduled_s
        if request.first_token_s is not None and not self.first_token_s[row] <= request.first_token_s:
            self.first_token_s[row] = request.first_token_s
        self.generated_tokens[row] += request.generated
        if request.cached_tokens:
            self.cached_tokens[row] = request.cached_tokens
        if request.preemptions:
            self.preemptions[row] += request.preemptions
            self.swap_outs[row] += request.swap_outs
            self.recomputed_tokens[row] += request.recomputed_tokens


STAMPS_AND_COUNTS = (
    "arrival_s", "first_scheduled_s", "first_token_s", "finish_s", "generated_tokens", "cached_tokens", "preemptions",
    "swap_outs", "recomputed_tokens",
)  # fmt: skip


class TokenTimes:
    """Inter-token times, weighted: a decode step is one value for all its decoders.

    Kept are the ends of steps, and for each run of them when the step before the first one ended: the differences are
    taken at the end, all at once.
    """

    def __init__(self) -> None:
        self.at_s = array("d")
        self.before_s, self.lengths, self.counts = array("d"), array("q"), array("q")  # a run of ends each

    def add(self, before_s: float, at_s: float, count: int) -> None:
        """So many tokens came at `at_s` whose forerunners had come at `before_s`."""
        self.at_s.append(at_s)
        self.before_s.append(before_s)
        self.lengths.append(1)
        self.counts.append(count)

    def add_stretch(self, before_s: float, ends: list[float], count: int) -> None:
        """So many tokens came at each of the ends, whose forerunners had come at the end before, first at `before_s`."""
        self.at_s.fromlist(ends)
        self.before_s.append(before_s)
        self.lengths.append(len(ends))
        self.counts.append(count)

    def columns(self) -> dict[str, np.ndarray]:
        at_s, lengths = np.array(self.at_s), np.array(self.lengths, dtype=np.int64)
        before_s = np.empty_like(at_s)
        before_s[1:] = at_s[:-1]
        before_s[np.cumsum(lengths) - lengths] = np.array(self.before_s)
        return {
            "itl_s": at_s - before_s,
            "itl_count": np.repeat(np.array(self.counts, dtype=np.int64), lengths),
            "itl_at_s": at_s,
        }


def request_columns(table: RequestTable, trace: Workload) -> dict[str, Any]:
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
        "deadline_s": np.array(table.deadline_s),
    }
    columns |= {name: np.array(getattr(table, name)) for name in STAMPS_AND_COUNTS}
    if trace.n is not None:
        columns["n"] = trace.n
    return columns
