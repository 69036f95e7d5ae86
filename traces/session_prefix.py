"""Who shares a prefix with whom when prompts grow turn by turn: the content as a structure, without an id a block."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from traces.prefix import KEY_BITS, Prefix


class SessionPrefix(Prefix):
    """A prompt keeps the first blocks of the previous turn's and continues with blocks of its own.

    `previous[i]` is the row of the turn before request i (-1: none), which must be smaller than i and the previous of
    no other; `kept[i]` how many hash blocks of it come first in prompt i, and all that follow are new. The first
    `common_blocks` blocks (a system prompt) are the same in all prompts. So every block has one owner, the request that
    was the first of its session to have it, and a prompt of 100,000 tokens costs two numbers.
    """

    def __init__(
        self,
        hash_block_tokens: int,
        previous: np.ndarray,
        kept: np.ndarray,
        prompt_tokens: np.ndarray,
        common_blocks: int = 0,
    ) -> None:
        blocks = prompt_tokens // hash_block_tokens
        kept = np.where(previous >= 0, np.minimum(np.minimum(kept, blocks[previous]), blocks), 0)
        values = {
            "hash_block_tokens": hash_block_tokens,
            "previous": previous,
            "kept": np.maximum(kept, common_blocks),  # what is common belongs to nobody, however short a prompt is
            "prompt_tokens": prompt_tokens,
            "common_blocks": common_blocks,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    previous: np.ndarray
    kept: np.ndarray
    common_blocks: int

    def take(self, rows: np.ndarray) -> SessionPrefix:
        """The content of these requests alone, in ascending rows: a turn then follows the nearest one that is left."""
        place = np.full(len(self), -1, np.int64)
        place[rows] = np.arange(len(rows))
        previous, kept = self.previous[rows], self.kept[rows]
        while len(lost := np.flatnonzero((previous >= 0) & (place[previous] < 0))):
            kept[lost] = np.minimum(kept[lost], self.kept[previous[lost]])
            previous[lost] = self.previous[previous[lost]]
        previous = np.where(previous >= 0, place[previous], -1)
        return SessionPrefix(self.hash_block_tokens, previous, kept, self.prompt_tokens[rows], self.common_blocks)

    def shareable_tokens(self) -> np.ndarray:
        """For each request the tokens of the longest prefix that another request of the trace also has: [n], int64."""
        blocks = self.prompt_tokens // self.hash_block_tokens
        later = np.flatnonzero(self.previous >= 0)
        before = self.previous[later]
        shared = np.zeros(len(self), np.int64)
        shared[later] = np.minimum(np.minimum(self.kept[later], blocks[later]), blocks[before])
        np.maximum.at(shared, before, shared[later])
        if self.common_blocks and len(self) > 1:
            first, second = np.sort(blocks)[[-1, -2]]
            longest_other = np.full(len(self), first)
            longest_other[np.argmax(blocks)] = second
            shared = np.maximum(shared, np.minimum(np.minimum(blocks, self.common_blocks), longest_other))
        return shared * self.hash_block_tokens

    def block_keys(self, index: int, block_size: int, count: int) -> list[int]:
        """As `Prefix.block_keys`; a key names the owner of the block's last token, and the block's index."""
        previous, kept = self._chain
        keys = [0] * count
        owner, end = index, count
        while end > 0:
            last = (end * block_size - 1) // self.hash_block_tokens  # the hash block of the last token
            while owner >= 0 and kept[owner] > last:
                owner = previous[owner]
            begin = 0 if owner < 0 else min(kept[owner] * self.hash_block_tokens // block_size, end)
            name = (owner + 1) << KEY_BITS
            keys[begin:end] = range(name + begin, name + end)
            end = begin
        return keys

    def common_tokens(self, first: int, second: int) -> int:
        """As `Prefix.common_tokens`."""
        previous, kept = self._chain
        low, high = sorted((first, second))
        shared = int(min(self.prompt_tokens[low], self.prompt_tokens[high]) // self.hash_block_tokens)
        while high > low:
            shared = min(shared, kept[high])
            high = previous[high]
        common = int(min(self.common_blocks, *self.prompt_tokens[[first, second]] // self.hash_block_tokens))
        shared = max(shared, common) if high == low else common
        return shared * self.hash_block_tokens

    @cached_property
    def _chain(self) -> tuple[list[int], list[int]]:
        """`previous` and `kept` as lists, of which one element is read faster."""
        return self.previous.tolist(), self.kept.tolist()

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where each prompt's ids begin in `ids`."""
        return np.concatenate(([0], np.cumsum(self.prompt_tokens // self.hash_block_tokens)))

    @cached_property
    def ids(self) -> np.ndarray:
        """One content id a block, as a file holds them: made when asked for, 8 bytes a block."""
        ids = np.empty(int(self.offsets[-1]), np.int64)
        for row, (start, stop) in enumerate(zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)):
            ids[start:stop] = self.block_keys(row, self.hash_block_tokens, stop - start)
        return ids
