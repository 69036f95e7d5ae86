"""The pool without caching: which blocks, how many, and who owns them."""

import pytest

from tests.core.drive import Drive
from twin.core import Limits, Request
from twin.core.block_pool import BlockPool, DoubleFree
from twin.core.limits import blocks_for


@pytest.mark.parametrize("tokens, blocks, in_the_last", [(8, 2, 4), (9, 3, 1), (0, 0, 0)])
def test_a_length_in_blocks(tokens: int, blocks: int, in_the_last: int) -> None:
    """blk-01"""
    assert blocks_for(tokens, 4) == blocks
    assert tokens - max(0, blocks - 1) * 4 == in_the_last


@pytest.mark.parametrize("prompt, free", [(4, [7, 6]), (3, [7, 7, 6])])
def test_a_block_is_taken_when_its_first_token_is_written(prompt: int, free: list[int]) -> None:
    """blk-02: the KV of the first decode step goes to slot `prompt`."""
    drive = Drive(Request("a", 0, prompt, 9), num_blocks=8, block_size=4)
    assert [8 - step.during_blocks for step in drive.steps(len(free))] == free


def test_a_fresh_pool_hands_out_in_ascending_order_and_what_came_back_last_first() -> None:
    pool = BlockPool(Limits(8))
    assert pool.take(3) == [0, 1, 2]
    assert pool.take(2) == [3, 4]
    pool.release_blocks([0, 1, 2], 0, 0)
    assert pool.free_order() == [2, 1, 0, 5, 6, 7]
    assert pool.take(0) == []


def holder(table: list[int]) -> Request:
    request = Request("a", 0, 1, 1)
    request.block_table = list(table)
    return request


def test_freeing_twice_is_an_error() -> None:
    """blk-03"""
    pool = BlockPool(Limits(4))
    table = pool.take(2)
    pool.release(holder(table), 0)
    with pytest.raises(DoubleFree, match="request a released blocks that nobody held"):
        pool.release(holder(table), 0)


def test_freeing_twice_while_others_hold_blocks_is_found_by_the_check() -> None:
    pool = BlockPool(Limits(8))
    table, others = pool.take(2), pool.take(4)
    pool.release(holder(table), 0)
    pool.check([others])
    pool.release(holder(table), 0)
    with pytest.raises(AssertionError, match="free"):
        pool.check([others])


def test_a_shared_block_comes_free_with_its_last_owner() -> None:
    """blk-03: a table with two owners."""
    pool = BlockPool(Limits(4))
    table = pool.take(2)
    sibling = pool.fork(table)
    assert [pool.references(block) for block in table] == [2, 2]
    pool.release(holder(table), 0)
    assert pool.num_free == 2 and pool.references(0) == 1
    pool.release(holder(sibling), 0)
    assert pool.num_free == 4
    pool.check([])


def test_beams_fork_the_survivors_before_the_losers_are_freed() -> None:
    """cow-03: Kwon et al. (SOSP 2023), figure 9: the next four candidates come from candidates 1 and 2."""
    pool = BlockPool(Limits(13, block_size=1))
    pool.take(9)
    candidates = [[0, 1, 3, 5], pool.fork([0, 1, 3]) + [6], pool.fork([0, 1, 3]) + [7], pool.fork([0]) + [2, 4, 8]]
    pool.check(candidates)
    survivors = [candidates[1], pool.fork(candidates[1]), candidates[2], pool.fork(candidates[2])]
    free_before = set(pool.free_order())
    for loser in (candidates[0], candidates[3]):
        pool.release_blocks(loser, 0, 0)
    assert set(pool.free_order()) - free_before == {2, 4, 5, 8}
    assert {block: pool.references(block) for block in (0, 1, 3, 6, 7)} == {0: 4, 1: 4, 3: 4, 6: 2, 7: 2}
    for survivor in survivors:
        survivor += pool.take(1)
    pool.check(survivors)
    assert pool.num_free == 4
