"""What a run leaves of its steps.

Steps of which each is one token for the same decoders make one row with `repeat`, whether they were walked one by one or
fast-forwarded: both ways write the same bytes. A step costs the append of a tuple; now and then all that were appended are
folded into rows at once, and kept as plain numbers.
"""

from __future__ import annotations

from array import array

import numpy as np
from mypy_extensions import mypyc_attr

from twin.core.batch import Batch
from twin.core.state import State

NUMBERS = (
    "repeat", "prefill_tokens", "decode_tokens", "sequences", "context_tokens", "waiting", "running", "swapped",
    "used_blocks", "cached_blocks", "peak_blocks", "block_steps", "token_steps", "preempted", "swapped_in_blocks",
    "swapped_out_blocks",
)  # fmt: skip
WIDTH = len(NUMBERS)
SUMMED = [NUMBERS.index(name) for name in ("repeat", "block_steps", "token_steps")]  # over the steps of a row
PEAK = NUMBERS.index("peak_blocks")  # the largest of them; all others are as after the row's last step
FOOTING = [NUMBERS.index(name) for name in ("sequences", "waiting", "running", "swapped")]  # as the step leaves it
PLAIN, BEFORE = WIDTH, slice(WIDTH + 1, None)  # behind the numbers: may it be joined to another; the footing it began on
FOLD_AT = 4096  # appended rows
MOST_NARROW = 2**31 - 1  # rows of smaller numbers are kept in half the bytes

Held = tuple[int, int, int]  # while steps ran: most blocks, blocks summed over the steps, tokens likewise
Standing = tuple[int, int, int]  # how many wait, run, are swapped


def standing(state: State) -> Standing:
    """Who stands where."""
    return len(state.waiting), len(state.running), len(state.swapped)


@mypyc_attr(allow_interpreted_subclasses=True)
class StepTable:
    """Rows of steps.parquet for one replica.

    Steps of pure decoding that follow each other without a gap, each with the same sequences and begun as the one before
    left everybody standing, are one row: its counts are those after its last step, its `repeat` says how many they were.
    Without `merge` every step is a row, as a real engine needs it, whose steps are never equal.
    """

    def __init__(self, replica: int, num_blocks: int, merge: bool = True) -> None:
        self.replica, self.num_blocks, self.merge = replica, num_blocks, merge
        self.steps = 0
        self.added: list[tuple[int, ...]] = []  # not folded yet; the first of them may be a row that still grows
        self.start_s, self.end_s = array("d"), array("d")  # ... of these
        self.folded: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # NUMBERS a row, starts and ends, seconds

    def add_stretch(
        self, state: State, sequences: int, context: int, start_s: float, end_s: float, stretch: Held, steps: int, left: int
    ) -> None:
        """`steps` decode steps have been done, with the last of which so many requests left; `context` is after it."""
        waiting, running, swapped = len(state.waiting), len(state.running), len(state.swapped)
        pool = state.pool
        self.steps += steps
        self.start_s.append(start_s)
        self.end_s.append(end_s)
        self.added.append((
            steps, 0, sequences, sequences, context, waiting, running, swapped, self.num_blocks - pool.num_free,
            pool.num_cached_free if pool.caches else 0, *stretch, 0, 0, 0,
            1, sequences, waiting, running + left, swapped,
        ))  # fmt: skip
        if len(self.added) > FOLD_AT:
            self._fold()

    def add_step(
        self, state: State, batch: Batch, during: Standing, start_s: float, end_s: float, blocks: int, tokens: int
    ) -> None:
        """One step, whatever it did; so many blocks were held while it ran, and so many tokens in them."""
        pool, preempted = state.pool, len(batch.preempted)
        blocks_in = blocks_out = 0
        if batch.transfers:
            blocks_in, blocks_out = batch.swapped_in_blocks, batch.swapped_out_blocks
        prefill = decode = sequences = context = 0
        if batch.features is not None:
            sequences, prefill, decode, context, *_ = batch.features
        plain = self.merge and not (prefill or preempted or blocks_in or blocks_out)
        self.steps += 1
        self.start_s.append(start_s)
        self.end_s.append(end_s)
        self.added.append((
            1, prefill, decode, sequences, context, len(state.waiting), len(state.running), len(state.swapped),
            self.num_blocks - pool.num_free, pool.num_cached_free if pool.caches else 0, blocks, blocks, tokens,
            preempted, blocks_in, blocks_out,
            plain, sequences, *during,
        ))  # fmt: skip
        if len(self.added) > FOLD_AT:
            self._fold()

    def _fold(self) -> None:
        """Join what belongs together. The last row stays with those that are still to be added: it may go on."""
        table = np.array(self.added, dtype=np.int64)
        start_s, end_s = np.array(self.start_s), np.array(self.end_s)
        plain, before, after = table[:, PLAIN], table[1:, BEFORE], table[:-1, FOOTING]
        goes_on = (plain[1:] & plain[:-1]).astype(bool) & (start_s[1:] == end_s[:-1]) & (before == after).all(axis=1)
        first = np.concatenate(([0], np.flatnonzero(~goes_on) + 1))
        last = np.concatenate((first[1:], [len(table)])) - 1
        rows = table[last]
        for place in SUMMED:
            rows[:, place] = np.add.reduceat(table[:, place], first)
        rows[:, PEAK] = np.maximum.reduceat(table[:, PEAK], first)
        numbers = rows[:-1, :WIDTH]
        width = np.int32 if numbers.max(initial=0) <= MOST_NARROW else np.int64
        self.folded.append((numbers.astype(width), start_s[first[:-1]], end_s[last[:-1]]))
        self.added = [tuple(rows[-1].tolist())]
        self.start_s, self.end_s = array("d", [start_s[first[-1]]]), array("d", [end_s[-1]])

    def columns(self) -> dict[str, np.ndarray]:
        """The columns by name; the rows' integers as they were added, what follows from them made here."""
        if self.added:
            self._fold()
        open_row = [(np.array(self.added, dtype=np.int64).reshape(-1, WIDTH + 5)[:, :WIDTH], self.start_s, self.end_s)]
        parts = [*self.folded, *open_row]
        columns = {
            name: np.concatenate([numbers[:, place] for numbers, _, _ in parts], dtype=np.int64)
            for place, name in enumerate(NUMBERS)
        }
        columns["replica"] = np.full(len(columns["repeat"]), self.replica)
        columns["step"] = np.cumsum(columns["repeat"]) - columns["repeat"] + 1
        columns["free_blocks"] = self.num_blocks - columns["used_blocks"] - columns["cached_blocks"]
        columns["start_s"] = np.concatenate([starts for _, starts, _ in parts])
        columns["duration_s"] = np.concatenate([ends for _, _, ends in parts]) - columns["start_s"]
        return columns
