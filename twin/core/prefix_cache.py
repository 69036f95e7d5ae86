"""The pool with prefix caching: a stack of blank blocks in front of a queue of cached ones.

A freed block that holds a full block of content keeps it, and its hash, until it is given out again. So blank blocks are
given out first, then the cached ones, least recently used first:

    free list =  [ blank stack (top first) ]  +  [ lru queue ]
                   partly filled tails            full blocks, tail first
                                                  0 .. head: given out long ago;  a hit leaves a hole, -1

The position of each registered block in the queue is known, so it is free exactly when its position is not before the
head: giving blocks out is a slice and writes nothing.

Content is known by its key, the chained hash of all blocks up to it. Several blocks may hold the same content; the oldest
living copy answers. *Lazy registration*: what no other request can have (`request.shareable_blocks` and later) is not
entered in the hash table until its owner is preempted, for only then can anybody ask for it. It counts as hashed in all
else.

    block table   [ registered | hashed, not registered | blank ]
                  0 ........ registered_blocks ..... hashed_blocks ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any

from twin.core.block_pool import BlockPool
from twin.core.limits import Limits

if TYPE_CHECKING:
    from twin.core.request import Request

HOLE = -1
TIDY_AT = 1 << 18  # the queue's dead front is cut off when it is this long


class PrefixCachingPool(BlockPool):
    """vLLM's block pool (0.32): LRU over freed blocks, full blocks found by hash."""

    caches = True

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.lru: list[int] = []
        self.head = 0
        self.cut = 0  # entries already cut off: position = index in lru + cut
        self.position: dict[int, int] = {}  # block -> its place, where it has been in the queue
        self.key_of: dict[int, object] = {}  # block -> key, of those in the hash table
        self.oldest: dict[object, int] = {}  # key -> the copy that answers
        self.younger: dict[object, list[int]] = {}  # key -> its other copies, oldest first; rarely any

    # --- taking and giving back

    def take(self, count: int) -> list[int]:
        blank = min(count, len(self.free_stack))
        taken = super().take(blank)
        return taken + self._evict(count - blank) if count > blank else taken

    def _evict(self, count: int) -> list[int]:
        assert count <= self.num_free
        self.num_free -= count
        lru, head = self.lru, self.head
        evicted = lru[head : head + count]
        head += count
        while HOLE in evicted:
            kept = [block for block in evicted if block != HOLE]
            missing = count - len(kept)
            evicted = kept + lru[head : head + missing]
            head += missing
        self.head = head
        if self.younger:
            for block in evicted:
                if block in self.key_of:
                    self._forget(block)
        else:
            keys = [key for key in map(self.key_of.pop, evicted, repeat(None)) if key is not None]
            _do(map(self.oldest.__delitem__, keys))
        return evicted

    def release_blocks(self, blocks: list[int], hashed: int, registered: int) -> None:
        """Of these blocks, in table order, the first `registered` are in the hash table, the first `hashed` full."""
        if self.forked:
            unregistered = [
                [block for block in part if not self._drop_owner(block)]
                for part in (blocks[registered:hashed], blocks[hashed:])
            ]
        else:
            unregistered = [blocks[registered:hashed], blocks[hashed:]]
        unknown, blank = unregistered
        unknown.reverse()
        if self.forked:  # a sibling that shared a block may have registered it
            for place, block in enumerate(unknown, len(self.lru) + self.cut):
                self.position[block] = place
        self.lru += unknown
        self.free_stack += blank
        self.num_free += len(unknown) + len(blank)
        self._release_registered(blocks[:registered])
        if self.head > TIDY_AT:
            del self.lru[: self.head]
            self.cut += self.head
            self.head = 0

    def _release_registered(self, blocks: list[int]) -> None:
        if self.extra_owners:
            owned = list(map(self.more_owners.__getitem__, blocks))
            shared = owned.index(0) if 0 in owned else len(owned)  # in front, as a rule: prefixes are shared
            if any(owned[shared:]):
                shared = len(owned)
            blocks = [block for block in blocks[:shared] if not self._drop_owner(block)] + blocks[shared:]
        start = len(self.lru) + self.cut
        self.num_free += len(blocks)
        self.lru += reversed(blocks)
        self.position.update(zip(reversed(blocks), range(start, start + len(blocks)), strict=True))

    def free_order(self) -> list[int]:
        return self.free_stack[::-1] + [block for block in self.lru[self.head :] if block != HOLE]

    @property
    def num_cached_free(self) -> int:
        return self.num_free - len(self.free_stack)

    # --- sharing

    def lookup(self, request: Request) -> list[int]:
        """The cached blocks that a waiting request could share; at least one token is left to compute."""
        hits = []
        answer = self.oldest.get
        for key in request.keys_to_look_up((request.known_tokens - 1) // self.block_size):
            block = answer(key)
            if block is None:
                break
            hits.append(block)
        return hits

    def free_among(self, blocks: list[int]) -> int:
        place, first = self.position.get, self.head + self.cut
        return sum([place(block, -1) >= first for block in blocks])

    def share(self, blocks: list[int]) -> None:
        position, cut, first = self.position, self.cut, self.head + self.cut
        for block in blocks:
            place = position.get(block, -1)
            if place >= first:  # it was free: its new owner is the first
                self.lru[place - cut] = HOLE
                position[block] = -1
                self.num_free -= 1
            else:
                self.more_owners[block] += 1
                self.extra_owners += 1

    # --- the hash table

    def register(self, request: Request, tokens: int) -> None:
        """Enter the blocks that so many known tokens fill and that others may share."""
        last = min(tokens // self.block_size, request.shareable_blocks)
        if last > request.registered_blocks:
            self._enter_run(request, request.registered_blocks, last)
            request.registered_blocks = last

    def register_rest(self, request: Request, hashed_blocks: int) -> None:
        """Enter also those that only the request itself can ask for: it is about to be preempted."""
        if hashed_blocks > request.registered_blocks:
            self._enter_run(request, request.registered_blocks, hashed_blocks)
            request.registered_blocks = hashed_blocks

    def _enter_run(self, request: Request, first: int, end: int) -> None:
        """Those from `first` on, before `end`: all at once where nobody else has any of that content."""
        if end - first > 1 and not self.forked:
            keys = request.keys_between(first, end)
            if self.oldest.keys().isdisjoint(keys):
                blocks = request.block_table[first:end]
                self.oldest.update(zip(keys, blocks, strict=True))
                self.key_of.update(zip(blocks, keys, strict=True))
                return
        self.enter(request, range(first, end))

    def enter(self, request: Request, indices: Iterable[int]) -> None:
        table, key_of, answer = request.block_table, self.key_of, self.oldest.setdefault
        for index in indices:
            block, key = table[index], request.key(index)
            if block in key_of:  # a sibling that shares the block has registered it
                continue
            key_of[block] = key
            if answer(key, block) != block:
                self.younger.setdefault(key, []).append(block)

    def unregister(self, request: Request, kept: int) -> None:
        """Tokens given back were never computed: neither are the blocks, past the first `kept`, entered with them."""
        while request.registered_blocks > kept:
            request.registered_blocks -= 1
            if (block := request.block_table[request.registered_blocks]) in self.key_of:
                self._forget(block)

    def disown(self, request: Request) -> None:
        """No block with content of its text is found any more: not its own, and not those that it has given back.

        It may have been preempted while the step that failed was in flight.
        """
        for block in request.block_table:
            if block in self.key_of:
                self._forget(block)
        for index in range(request.known_tokens // self.block_size):
            while (copy := self.oldest.get(request.key(index))) is not None:
                self._forget(copy)

    def _forget(self, block: int) -> None:
        key = self.key_of.pop(block)
        heirs = self.younger.get(key)
        if heirs is None:
            del self.oldest[key]
            return
        if self.oldest[key] == block:
            self.oldest[key] = heirs.pop(0)
        else:
            heirs.remove(block)
        if not heirs:
            del self.younger[key]

    def check(self, tables: Iterable[Any]) -> None:
        """... and what answers for a key is a block with that key."""
        super().check(tables)
        assert all(self.key_of[block] == key for key, block in self.oldest.items()), "stale hash"
        assert self.key_of.keys().isdisjoint(self.free_stack), "a blank block with a hash"


def _do(calls: Iterable[Any]) -> None:
    """All of them, for what they do: a loop without a line of Python a block."""
    deque(calls, maxlen=0)
