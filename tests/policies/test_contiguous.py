"""The contiguous allocator: best fit, coalescing, external fragmentation."""

from hypothesis import given
from hypothesis import strategies as st

from tests.policies.scenarios import played, request
from twin.core.contiguous import ContiguousPool
from twin.core.limits import Limits


def give_back(pool, *extents):
    for blocks in extents:
        pool.release_blocks(blocks, 0, 0)


def test_a_fresh_pool_is_handed_out_from_the_front():
    pool = ContiguousPool(Limits(8))
    assert [pool.take(3), pool.take(3), pool.take(2)] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert pool.num_free == 0 and not pool.can_take(1)


def test_external_fragmentation():
    """3 + 2 blocks are free and no 4 of them lie together."""
    pool = ContiguousPool(Limits(8))
    first, middle, last = pool.take(3), pool.take(3), pool.take(2)
    give_back(pool, first, last)
    assert pool.num_free == 5
    assert pool.can_take(3) and not pool.can_take(4)
    give_back(pool, middle)
    assert pool.take(8) == list(range(8))


def test_neighbours_that_are_free_become_one_extent():
    pool = ContiguousPool(Limits(8))
    _, middle, last = pool.take(3), pool.take(3), pool.take(2)
    give_back(pool, last, middle)
    assert pool.take(4) == [3, 4, 5, 6]


def test_best_fit_is_the_smallest_that_is_large_enough_and_the_lowest_on_a_tie():
    pool = ContiguousPool(Limits(20))
    extents = [pool.take(length) for length in (4, 1, 2, 1, 3, 1, 2, 6)]  # at 0, 4, 5, 7, 8, 11, 12, 14
    give_back(pool, *extents[::2])  # 4 at 0, 2 at 5, 3 at 8, 2 at 12
    assert pool.take(2) == [5, 6]
    assert pool.take(2) == [12, 13]
    assert pool.take(2) == [8, 9]
    assert pool.take(3) == [0, 1, 2]


def test_a_request_waits_though_enough_blocks_are_free():
    """Orca (oracle) sets 3, 3, 2 and 4 blocks of 4 tokens aside. When A and C have ended, 3 + 2 are free, and D waits."""
    requests = [request("A", 9, 2), request("B", 9, 4), request("C", 5, 2), request("D", 13, 2, 0.5)]
    steps, summary = played({"name": "orca", "reserve": "oracle"}, requests, 8, 4, predictor="oracle")
    assert [step["free_blocks"] for step in steps] == [0, 5, 5, 8, 4, 8]
    assert steps[0]["block_tables"] == {"A": [0, 1, 2], "B": [3, 4, 5], "C": [6, 7]}
    assert steps[4]["admitted"] == ["D"]
    assert summary["requests"]["D"]["first_token_s"] == 5.0
    paged, _ = played("fcfs", requests, 8, 4)
    assert paged[2]["admitted"] == ["D"]  # pages may lie anywhere


class Bitmap:
    """The definition: look at every run of free blocks."""

    def __init__(self, num_blocks):
        self.free = [True] * num_blocks

    def runs(self):
        start = None
        for block, free in enumerate([*self.free, False]):
            if free and start is None:
                start = block
            elif not free and start is not None:
                yield block - start, start
                start = None

    def take(self, count):
        fitting = [run for run in self.runs() if run[0] >= count]
        if not fitting:
            return None
        _, start = min(fitting)
        self.free[start : start + count] = [False] * count
        return list(range(start, start + count))

    def release(self, blocks):
        for block in blocks:
            self.free[block] = True


@given(num_blocks=st.integers(1, 40), moves=st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=60))
def test_the_pool_agrees_with_a_bitmap(num_blocks, moves):
    pool, bitmap, held = ContiguousPool(Limits(num_blocks)), Bitmap(num_blocks), []
    for takes, number in moves:
        if takes:
            count = 1 + number % 12
            expected = bitmap.take(count)
            assert pool.can_take(count) == (expected is not None)
            if expected is not None:
                assert pool.take(count) == expected
                held.append(expected)
        elif held:
            blocks = held.pop(number % len(held))
            give_back(pool, blocks)
            bitmap.release(blocks)
        assert pool.free_order() == [block for block, free in enumerate(bitmap.free) if free]
        pool.check(held)
