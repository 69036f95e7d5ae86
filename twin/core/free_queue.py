"""The pool whose free list is one queue, as in vLLM up to 0.21: what was freed first is given out first, content or none.

free list =  [ fresh stack ]  +  [ queue ]
               never held        freed blocks, of each table the tail first
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twin.core.limits import Limits
from twin.core.prefix_cache import PrefixCachingPool


class FreeQueuePool(PrefixCachingPool):
    """Also without prefix caching: then nothing is ever hashed. `blank`: blocks of the queue without content."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.caches = limits.enable_prefix_caching
        self.blank: set[int] = set()

    def _evict(self, count: int) -> list[int]:
        taken = super()._evict(count)
        self.blank.difference_update(taken)
        return taken

    def release_blocks(self, blocks: list[int], hashed: int, registered: int) -> None:
        blank = [block for block in blocks[hashed:] if not (self.forked and self._drop_owner(block))]
        blank.reverse()
        self.lru += blank
        self.blank.update(blank)
        self.num_free += len(blank)
        super().release_blocks(blocks[:hashed], hashed, registered)

    @property
    def num_cached_free(self) -> int:
        return self.num_free - len(self.free_stack) - len(self.blank)

    def check(self, tables: Iterable[Any]) -> None:
        super().check(tables)
        assert self.key_of.keys().isdisjoint(self.blank), "a blank block with a hash"
