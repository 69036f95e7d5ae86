"""The pool of KV blocks without prefix caching: the free list is a stack.

A request frees its tail first, and what was freed last is given out first, so the stack simply grows by the block table:

    free_stack   [ 9 8 7 | 3 5 4 ]      release([3, 5, 4]), then take(2) gives [4, 5]
                         table ^ top

Block ids run from 0 and leave a fresh pool in ascending order. `prefix_cache.py` adds hashes, `contiguous.py` extents; the
scheduler does not know which it has. A block has one owner unless it was forked (parallel sampling) or is cached content.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from twin.core.errors import DoubleFree
from twin.core.limits import Limits

if TYPE_CHECKING:
    from twin.core.request import Request


class BlockPool:
    """Blocks by number, on the device and on the host."""

    caches = False  # content is kept and found again
    reserves = False  # a table is set aside whole at admission

    def __init__(self, limits: Limits) -> None:
        self.block_size = limits.block_size
        self.num_blocks = self.num_free = limits.num_blocks
        self.free_stack = list(range(limits.num_blocks - 1, -1, -1))
        self.free_host = list(range(limits.num_host_blocks - 1, -1, -1))
        self.more_owners = [0] * limits.num_blocks  # owners beyond the first
        self.extra_owners = 0  # their sum: held + extra_owners = sum of table lengths
        self.forked = False  # from the first fork on, releases look at each block

    def take(self, count: int) -> list[int]:
        """The next `count` free blocks. The caller has made sure that there are so many."""
        assert count <= self.num_free
        if not count:
            return []
        self.num_free -= count
        stack = self.free_stack
        taken = stack[-count:]
        taken.reverse()
        del stack[-count:]
        return taken

    def can_take(self, count: int) -> bool:
        """Blocks for an admission: paged blocks may lie anywhere."""
        return count <= self.num_free

    def release(self, request: Request, hashed_blocks: int) -> None:
        """The whole table goes back, `hashed_blocks` of it full and known; the request holds nothing afterwards."""
        self.release_blocks(request.block_table, hashed_blocks, request.registered_blocks)
        request.block_table = ()
        request.registered_blocks = 0
        if self.num_free > self.num_blocks:
            raise DoubleFree(f"request {request.id} released blocks that nobody held")

    def release_blocks(self, blocks: list[int], hashed: int, registered: int) -> None:
        """Blocks in table order. `hashed` and `registered` matter only where content is cached."""
        if self.forked:
            blocks = [block for block in blocks if not self._drop_owner(block)]
        self.free_stack += blocks
        self.num_free += len(blocks)

    def _drop_owner(self, block: int) -> bool:
        """Another owner remains."""
        if not self.more_owners[block]:
            return False
        self.more_owners[block] -= 1
        self.extra_owners -= 1
        return True

    def free_order(self) -> list[int]:
        """The free list from the next block to be given out to the last."""
        return self.free_stack[::-1]

    def references(self, block: int) -> int:
        """Owners of a block that is held."""
        return self.more_owners[block] + 1

    def fork(self, table: list[int]) -> list[int]:
        """A second owner for all blocks of a table: the table of the sibling."""
        self.forked = True
        self.extra_owners += len(table)
        for block in table:
            self.more_owners[block] += 1
        return list(table)

    def copy_on_write(self, table: list[int], index: int) -> tuple[int, int] | None:
        """Make block `index` of a table private before it is written: (from, to), or None for the last owner."""
        block = table[index]
        if not self.more_owners[block]:
            return None
        (copy,) = self.take(1)
        self._drop_owner(block)
        table[index] = copy
        return block, copy

    @property
    def num_cached_free(self) -> int:
        """Free blocks that still hold content which can be found."""
        return 0

    # --- content: nothing is kept here

    def lookup(self, request: Request) -> list[int]:
        return []

    def free_among(self, blocks: list[int]) -> int:
        return 0

    def share(self, blocks: list[int]) -> None:
        pass

    def register(self, request: Request, tokens: int) -> None:
        pass

    def register_rest(self, request: Request, hashed_blocks: int) -> None:
        pass

    def enter(self, request: Request, indices: Iterable[int]) -> None:
        pass

    def unregister(self, request: Request, kept: int) -> None:
        pass

    def disown(self, request: Request) -> None:
        pass

    def check(self, tables: Iterable[Any]) -> None:
        """Invariants: free + held = all, references = owners. Costs O(blocks): for tests and at the end of a run."""
        owners = [0] * self.num_blocks
        for table in tables:
            for block in table:
                owners[block] += 1
        free = self.free_order()
        held = [block for block, count in enumerate(owners) if count]
        assert len(free) == self.num_free and sorted(free + held) == list(range(self.num_blocks)), "free + held != N"
        assert all(self.more_owners[block] == owners[block] - 1 for block in held), "references != owners"
