"""The allocator that paging replaced: extents, best fit, fragmentation."""

import pytest

from tests.core.drive import Drive
from twin.core import Limits, PolicyError, Request, Rules
from twin.core.contiguous import ContiguousPool
from twin.policy import Policy

CONTIGUOUS = Rules(allocator="contiguous")


def test_the_smallest_extent_that_is_large_enough_and_free_neighbours_meet() -> None:
    pool = ContiguousPool(Limits(10))
    a, b, c, d = pool.take(3), pool.take(1), pool.take(2), pool.take(2)
    assert (a, b, c, d) == ([0, 1, 2], [3], [4, 5], [6, 7])
    pool.release_blocks(a, 0, 0)
    pool.release_blocks(c, 0, 0)
    assert pool.take(2) == [4, 5]  # 4-5 and 8-9 both fit exactly: the lowest
    assert pool.take(2) == [8, 9]
    pool.release_blocks(b, 0, 0)
    assert pool.free_order() == [0, 1, 2, 3] and pool.can_take(4)


def test_external_fragmentation_refuses_what_would_fit_in_pages() -> None:
    pool = ContiguousPool(Limits(6))
    tables = [pool.take(2) for _ in range(3)]
    pool.release_blocks(tables[0], 0, 0)
    pool.release_blocks(tables[2], 0, 0)
    assert pool.num_free == 4 and not pool.can_take(3)


def test_room_for_the_longest_sequence_is_set_aside_at_admission() -> None:
    """ord-01: 15.7K slots and sequences of up to 2,048 tokens hold 7 requests (Kwon et al., SOSP 2023, table 1)."""
    limits = dict(num_blocks=15_700, block_size=1, max_model_len=2048)
    requests = [Request(f"r{number}", 0, 10, 5) for number in range(9)]
    drive = Drive(*requests, rules=CONTIGUOUS, **limits)
    assert len(drive.step().scheduled) == 7
    drive.drain()


def test_a_reservation_that_a_request_outgrows_is_the_policys_error() -> None:
    class Short(Policy):
        def reserve(self, request, view):
            return request.prompt_tokens + 2

    drive = Drive(Request("a", 0, 4, 9), policy=Short(), rules=CONTIGUOUS, num_blocks=20, block_size=1)
    drive.steps(3)
    with pytest.raises(PolicyError, match=r"reserve\(\) set 6 tokens aside for request a, which has come to 7"):
        drive.step()


def test_what_can_never_be_reserved_is_rejected() -> None:
    drive = Drive(rules=CONTIGUOUS, num_blocks=8, block_size=16, max_model_len=200)
    assert drive.scheduler.add(Request("a", 0, 10, 5)) == "a reservation of 13 contiguous blocks exceeds num_gpu_blocks=8"
