"""Swapping: the blocks of a preempted request move to the host and back.

Blocks that others share stay on the device and stay referenced; only private ones move. While a request is swapped its
table shows None for a block that is away, and `host_blocks` where it is:

    block_table  [ 4  7  None None ]          4 and 7: a shared prefix, held all the time
    host_blocks  {2: 11, 3: 12}               index -> host block

What a move costs in time is the driver's affair: the batch says how many blocks moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.core.limits import blocks_for
from twin.core.request import SWAPPED, Request

if TYPE_CHECKING:
    from twin.core.state import State


def swap_out(state: State, request: Request) -> bool:
    """Move a request that has just been taken off to the host; False if the host has no room, or nothing is written."""
    pool, table = state.pool, request.block_table
    written = blocks_for(request.settled_computed, pool.block_size)
    private = [index for index in range(written) if pool.references(table[index]) == 1]
    if not written or len(private) > len(pool.free_host):
        return False
    hashed = request.hashed_blocks
    promised = table[written:]  # for this step, never written
    del table[written:]
    pool.release_blocks(promised, 0, 0)
    hashed_and_private = sum(index < hashed for index in private)
    pool.release_blocks([table[index] for index in private], hashed_and_private, hashed_and_private)
    state.table_blocks -= len(promised) + len(private)
    request.host_blocks = {index: pool.free_host.pop() for index in private}
    for index in private:
        table[index] = None
    state.blocks_out += len(private)
    request.swap_outs += 1
    request.state = SWAPPED
    state.swapped.insert(0, request)
    return True


def swap_in(state: State, request: Request, budget: int, tokens: int | None = None) -> int:
    """Bring the request back if it fits, and say how many tokens it gets in this step; 0: it does not."""
    pool, away = state.pool, request.host_blocks
    assert away is not None
    tokens = tokens or state.chunk(request, request.pending, budget)
    if not tokens:
        return 0  # its last token is in flight
    needed = len(away) + state.blocks_missing(request, request.settled_computed + tokens)
    if needed + state.kept_back() > pool.num_free:
        return 0
    for index, block in zip(away, pool.take(len(away)), strict=True):
        request.block_table[index] = block
    state.table_blocks += len(away)
    registered = min(request.hashed_blocks, request.shareable_blocks)
    pool.enter(request, [index for index in away if index < registered])  # the content is on the device again
    request.registered_blocks = registered
    state.blocks_in += len(away)
    leave_host(state, request)
    return tokens


def give_up(state: State, request: Request) -> None:
    """A swapped request is recomputed instead: what it still holds on the device goes back.

    Without this, swapped requests that keep shared blocks could leave too few for any of them, for ever.
    """
    keep_device_part(request)
    leave_host(state, request)
    state.swaps_given_up += 1
    state.start_over(request)


def keep_device_part(request: Request) -> None:
    """Its table without the blocks that are away. What of it counted as hashed was registered when it was preempted."""
    table, hashed = request.block_table, request.hashed_blocks
    request.registered_blocks = request.hashed_blocks = sum(block is not None for block in table[:hashed])
    request.block_table = [block for block in table if block is not None]


def leave_host(state: State, request: Request) -> None:
    """Its host blocks are free; what becomes of the request is the caller's affair."""
    assert request.host_blocks is not None
    state.pool.free_host += request.host_blocks.values()
    request.host_blocks = None
    state.swapped.remove(request)
