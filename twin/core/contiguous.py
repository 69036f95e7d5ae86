"""The allocator that paging replaced: one contiguous extent for each request, set aside whole at admission.

Systems before PagedAttention (FasterTransformer, Orca; Kwon et al., SOSP 2023, section 3.1 and figure 3) reserve room for
the longest sequence that a request may become. What is reserved and not used is internal, what lies between extents and
fits nobody is external fragmentation. Best fit: the smallest free extent that is large enough, the lowest on a tie.

    blocks   0 1 2 3 4 5 6 7 8 9
             A A A . . B B . . .     num_free = 5, but a request of 4 does not fit
"""

from bisect import bisect_left

from twin.core.block_pool import BlockPool
from twin.core.limits import Limits


class ContiguousPool(BlockPool):
    """Extents in blocks; free ones are kept by start and coalesced when they meet."""

    reserves = True

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.free_stack = []
        self.starts = [0]  # of the free extents, ascending
        self.lengths = [limits.num_blocks]

    def can_take(self, count: int) -> bool:
        return any(length >= count for length in self.lengths)

    def take(self, count: int) -> list[int]:
        if not count:
            return []
        fitting = [(length, start) for start, length in zip(self.starts, self.lengths, strict=True) if length >= count]
        length, start = min(fitting)
        place = bisect_left(self.starts, start)
        if length == count:
            del self.starts[place], self.lengths[place]
        else:
            self.starts[place] += count
            self.lengths[place] -= count
        self.num_free -= count
        return list(range(start, start + count))

    def release_blocks(self, blocks: list[int], hashed: int, registered: int) -> None:
        if not blocks:
            return
        start, length = blocks[0], len(blocks)
        self.num_free += length
        place = bisect_left(self.starts, start)
        if place < len(self.starts) and self.starts[place] == start + length:  # meets the extent behind it
            length += self.lengths.pop(place)
            del self.starts[place]
        if place and self.starts[place - 1] + self.lengths[place - 1] == start:  # and the one before it
            self.lengths[place - 1] += length
        else:
            self.starts.insert(place, start)
            self.lengths.insert(place, length)

    def fork(self, table: list[int]) -> list[int]:
        raise AssertionError("contiguous extents cannot be shared")

    def free_order(self) -> list[int]:
        return [
            block for start, length in zip(self.starts, self.lengths, strict=True) for block in range(start, start + length)
        ]
