"""The content of prompts in a file: lists of hash ids, or of the token ids themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from traces.prefix import Prefix
from traces.readers.rows import Cells, Rows

ODD_ID = -(2**63)  # the numbers of ids that are text, or too large for a number, go up from here to
PLAIN_ID = -(2**62)  # the least id that stands for itself


@dataclass(frozen=True, eq=False)
class Ragged:
    """A column of lists of ids: `counts[row]` of `ids` belong to each row, one row's after the other's."""

    counts: np.ndarray
    ids: np.ndarray

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Ragged:
        """From lists of integers of 64 bits; raises OverflowError for larger ones."""
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        return cls(counts, np.fromiter(chain.from_iterable(lists), np.int64, int(counts.sum())))

    @classmethod
    def joined(cls, parts: Iterable[Ragged]) -> Ragged:
        """One below the other."""
        columns = [(part.counts, part.ids) for part in parts]
        counts, ids = zip(*columns, strict=True)
        return cls(np.concatenate(counts), np.concatenate([some for some in ids if len(some)] or ids))

    def __len__(self) -> int:
        return len(self.counts)

    def lists(self) -> list[list[int]]:
        """The rows as lists."""
        ends = np.cumsum(self.counts).tolist()
        return [self.ids[end - count : end].tolist() for end, count in zip(ends, self.counts.tolist(), strict=True)]

    def take(self, rows: np.ndarray) -> Ragged:
        """These rows alone, given by number or by a mask."""
        prefix = self.prefix(1, np.zeros(len(self.counts), np.int64))
        kept = prefix.take(np.flatnonzero(rows) if rows.dtype == bool else rows)
        return Ragged(np.diff(kept.offsets), kept.ids)

    def prefix(self, hash_block_tokens: int, prompt_tokens: np.ndarray) -> Prefix:
        """The same as content of prompts of these lengths."""
        return Prefix(hash_block_tokens, self.ids, np.concatenate(([0], np.cumsum(self.counts))), prompt_tokens)


class Content:
    """Reads the column `name`: lists of ids, one for every `hash_block_tokens` tokens of the prompt.

    The last of a list may be partly filled. A row whose number of ids is not ceil(prompt / hash_block_tokens) is
    rejected; unless the list is to be of the `whole` prompt it may be shorter. What has no id, or a row without a list,
    is content that no other prompt has. Ids are integers or text; equal ids of one type are equal content.
    """

    def __init__(self, name: str, hash_block_tokens: int, whole: bool = True) -> None:
        self.name, self.hash_block_tokens, self.whole = name, hash_block_tokens, whole
        self.numbers: dict[object, int] = {}  # of ids that are text, or too large

    def column(self, cells: Cells | Ragged, rows: Rows, prompt_tokens: np.ndarray) -> Ragged:
        """The next rows of the file."""
        if isinstance(cells, Ragged):
            needed = -(-prompt_tokens // self.hash_block_tokens)
            fits = cells.counts == needed if self.whole else cells.counts <= needed
            if fits.all() and cells.ids.min(initial=0) >= PLAIN_ID:
                return cells
            cells = cells.lists()
        lists: list[Sequence] = []
        for row, (cell, tokens) in enumerate(zip(cells, prompt_tokens.tolist(), strict=True)):
            needed = -(-tokens // self.hash_block_tokens)
            if isinstance(cell, list) and (len(cell) == needed or (len(cell) < needed and not self.whole)):
                lists.append(cell)
                continue
            lists.append(())
            if isinstance(cell, list):
                rows.reject(
                    row,
                    f"{self.name} has {len(cell)} entries, a prompt of {tokens} tokens in blocks of "
                    f"{self.hash_block_tokens} {'needs' if self.whole else 'has at most'} {needed}",
                )
            elif cell is not None:
                rows.reject(row, f"{self.name} must be a list")
        if set(map(type, chain.from_iterable(lists))) <= {int}:
            try:
                ragged = Ragged.of(lists)
                if not len(ragged.ids) or ragged.ids.min() >= PLAIN_ID:
                    return ragged
            except OverflowError:
                pass
        return Ragged.of([self.numbered(row, ids, rows) for row, ids in enumerate(lists)])

    def numbered(self, row: int, ids: Sequence, rows: Rows) -> list[int]:
        """Ids of any size, or text: the same id, the same number. Others reject their row."""
        if not all(type(entry) in (int, str) for entry in ids):
            rows.reject(row, f"{self.name} must hold integers or text")
            return []
        return [
            entry
            if isinstance(entry, int) and PLAIN_ID <= entry < 2**63
            else self.numbers.setdefault(entry, ODD_ID + len(self.numbers))
            for entry in ids
        ]
