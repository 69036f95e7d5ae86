"""Who shares a prefix with whom: the content of prompts, as far as a trace tells it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

ROWS_AT_ONCE = 4_096
KEY_BITS = 24  # of a block key, for the block's index: prompts of up to 2^24 blocks


@dataclass(frozen=True, eq=False)
class Prefix:
    """Prompts as sequences of content ids, one id for each `hash_block_tokens` tokens (1: the token ids themselves).

    `ids` holds the sequences one after the other, request i's at `offsets[i]:offsets[i + 1]`. Two prompts agree as
    far as their ids agree from the start; a request without ids shares nothing. The id of a block that the prompt
    fills only in part is not compared: what is shared is counted in whole blocks, as a real prefix cache does.

    Sorted, the sequences that share a prefix lie side by side: `_tree` keeps how many ids each has in common with
    its neighbour, and from this everything is answered exactly, without a node for every id.
    """

    hash_block_tokens: int
    ids: np.ndarray
    offsets: np.ndarray
    prompt_tokens: np.ndarray

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]], prompt_tokens: Iterable[int], hash_block_tokens: int) -> Prefix:
        """From one sequence of ids (integers of 64 bits) a request; `prompt_tokens` are the prompts' lengths."""
        offsets = np.zeros(len(sequences) + 1, np.int64)
        np.cumsum([len(sequence) for sequence in sequences], out=offsets[1:])
        ids = np.fromiter((number for sequence in sequences for number in sequence), np.int64, int(offsets[-1]))
        return cls(hash_block_tokens, ids, offsets, np.asarray(prompt_tokens, np.int64))

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    def sequence(self, index: int) -> np.ndarray:
        """The content ids of request `index`."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def take(self, rows: np.ndarray) -> Prefix:
        """The content of these requests alone."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        ids = np.empty(offsets[-1], self.ids.dtype)
        for some in range(0, len(lengths), ROWS_AT_ONCE):  # so that only the ids themselves are in memory twice
            part = slice(some, some + ROWS_AT_ONCE)
            begin, end = offsets[some], offsets[min(some + ROWS_AT_ONCE, len(lengths))]
            source = np.repeat(self.offsets[:-1][rows[part]] - offsets[:-1][part], lengths[part]) + np.arange(begin, end)
            ids[begin:end] = self.ids[source]
        return Prefix(self.hash_block_tokens, ids, offsets, self.prompt_tokens[rows])

    def shareable_tokens(self) -> np.ndarray:
        """For each request the tokens of the longest prefix that another request of the trace also has: [n], int64."""
        order, _, common, _ = self._tree
        depth = np.maximum(common[:-1], common[1:])  # the closest relative is a neighbour
        tokens = np.empty(len(self), np.int64)
        tokens[order] = depth * self.hash_block_tokens
        return tokens

    def cached_tokens(self) -> np.ndarray:
        """For each request the tokens of the longest prefix that an earlier one (by row) has: [n], int64.

        What a cache without limit of size would hit, in whole hash blocks. Of all earlier requests the nearest in
        sorted order, to either side, has most in common.
        """
        order, _, common, _ = self._tree
        depth = np.zeros(len(self), np.int64)
        for rows, between in ((order, common[:-1]), (order[::-1], [0, *common[-2:0:-1]])):
            nearer: list[tuple[int, int]] = []  # (row, ids in common with the one below), rows ascending
            for row, shared in zip(rows, between, strict=True):
                while nearer and nearer[-1][0] > row:
                    shared = min(shared, nearer.pop()[1])
                depth[row] = max(depth[row], shared if nearer else 0)
                nearer.append((row, shared))
        return depth * self.hash_block_tokens

    def block_keys(self, index: int, block_size: int, count: int) -> list[int]:
        """Keys of the first `count` blocks of `block_size` tokens of request `index`.

        Two requests have the same key at a block if and only if their prompts agree up to the end of that block.
        A key names the first request, in sorted order, that has this prefix, and the block's index.
        """
        _, rank, common, shorter = self._tree
        holder = rank[index]
        keys = [0] * count
        end = count
        while end > 0:  # from the last block back: those whose last token the same id covers have the same holder
            depth = -(-end * block_size // self.hash_block_tokens)
            begin = (depth - 1) * self.hash_block_tokens // block_size
            while common[holder] >= depth:
                holder = shorter[holder]
            keys[begin:end] = range((holder << KEY_BITS) + begin, (holder << KEY_BITS) + end)
            end = begin
        return keys

    def common_tokens(self, first: int, second: int) -> int:
        """Tokens of the longest prefix that these two requests share, in whole hash blocks."""
        length = min(int(self.prompt_tokens[row]) // self.hash_block_tokens for row in (first, second))
        one, other = self.sequence(first)[:length], self.sequence(second)[:length]
        size = min(len(one), len(other))
        differ = np.flatnonzero(one[:size] != other[:size])
        return (int(differ[0]) if len(differ) else size) * self.hash_block_tokens

    def minimum_cacheable_tokens(self, block_size: int) -> int:
        """The shortest common prefix that can give a hit: whole hash blocks that fill one KV block of `block_size`."""
        return -(-block_size // self.hash_block_tokens) * self.hash_block_tokens

    @cached_property
    def _tree(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """(order, rank, common, shorter) over the sorted sequences.

        `common[r]`: ids that the r-th sequence in sorted order shares with the one before it (0 for the first, and
        one more 0 behind the last). `shorter[r]`: the nearest r' < r with common[r'] < common[r].
        """
        lengths = np.minimum(np.diff(self.offsets), self.prompt_tokens // self.hash_block_tokens)
        starts = self.offsets[:-1]
        size = self.ids.itemsize
        raw = memoryview(np.ascontiguousarray(self.ids).view(np.uint8))  # type: ignore[arg-type]
        words = [bytes(raw[size * start : size * (start + length)]) for start, length in zip(starts, lengths, strict=True)]
        # sorted as bytes, which is some order of the ids: it puts those with a common prefix side by side, as any does
        order = np.array(sorted(range(len(words)), key=words.__getitem__), np.int64)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))

        common = np.zeros(len(order) + 1, np.int64)
        most = np.minimum(lengths[order[:-1]], lengths[order[1:]])
        equal = np.flatnonzero(most > 0)  # pairs of neighbours that agree so far
        depth = 0
        while len(equal):
            before, after = starts[order[equal]] + depth, starts[order[equal + 1]] + depth
            equal = equal[self.ids[before] == self.ids[after]]
            depth += 1
            common[equal + 1] = depth
            equal = equal[most[equal] > depth]

        shorter, open_ranks = [], [0]
        depths = common.tolist()  # plain lists from here on: reading one element of an array costs five times as much
        for position, value in enumerate(depths[:-1]):
            while open_ranks and depths[open_ranks[-1]] >= value:
                open_ranks.pop()
            shorter.append(open_ranks[-1] if open_ranks else 0)
            open_ranks.append(position)
        return order.tolist(), rank.tolist(), depths, shorter
