"""Swapping: the blocks of a preempted request move to the host and back.

Blocks that others share stay on the device and stay referenced; only private ones move. While a request is swapped its
table shows None for a block that is away, and `host_blocks` where it is:

    block_table  [ 4  7  None None ]          4 and 7: a shared prefix, held all the time
    host_blocks  {2: 11, 3: 12}               index -> host block

A *kept* request has lost its seat alone: it is swapped with nothing away, `host_blocks` is empty. Its blocks are the first
to go when somebody needs some.

Both hold for requests that pause (pauses.py), too; of the kept these are the first to go. `State.parked_tokens` is the sum
over all who are here of the tokens that they have on the device.

What a move costs in time is the driver's affair: the batch says how many blocks moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from twin.core.batch import Transfer
from twin.core.errors import PolicyError
from twin.core.limits import blocks_for
from twin.core.ordered import is_less, key_of
from twin.core.request import PAUSED, RUNNING, SWAPPED, Request
from twin.core.restart import lose, start_over

if TYPE_CHECKING:
    from twin.core.state import State
    from twin.policy import RequestView


def swap_out(state: State, request: Request) -> bool:
    """Move a request that has just been taken off to the host; False if the host has no room, or nothing is written."""
    private = _written_and_private(state, request)
    if private is None or len(private) > len(state.pool.free_host):
        return False
    _return_promised(state, request)
    _move_out(state, request, private)
    state.parked_tokens += tokens_on_device(request)
    return True


def tokens_on_device(request: Request) -> int:
    """Of a request that does not run: what it has computed, less what is away."""
    computed, away = request.settled_computed, request.host_blocks
    if not away:
        return 0 if away is None else computed
    assert request.pool is not None
    block_size = request.pool.block_size
    return computed - sum(min(block_size, computed - index * block_size) for index in away)


def _written_and_private(state: State, request: Request) -> list[int] | None:
    """Indices of the blocks that would move; None if nothing is written."""
    pool, table = state.pool, request.block_table
    written = blocks_for(request.settled_computed, pool.block_size)
    if not written:
        return None
    if not pool.extra_owners:  # nobody shares anything
        return list(range(written))
    return [index for index in range(written) if pool.references(table[index]) == 1]


def _return_promised(state: State, request: Request) -> None:
    """Blocks taken for this step, never written."""
    written = blocks_for(request.settled_computed, state.pool.block_size)
    promised = request.block_table[written:]
    del request.block_table[written:]
    state.pool.release_blocks(promised, 0, 0)
    state.table_blocks -= len(promised)


def _move_out(state: State, request: Request, private: list[int]) -> None:
    pool, table = state.pool, request.block_table
    hashed_and_private = sum(index < request.hashed_blocks for index in private)
    pool.release_blocks([table[index] for index in private], hashed_and_private, hashed_and_private)
    state.table_blocks -= len(private)
    request.host_blocks = {index: pool.free_host.pop() for index in private}
    for index, host_block in request.host_blocks.items():
        state.transfers.append(Transfer("out", table[index], host_block))
        table[index] = None
    request.swap_outs += 1


def keep(state: State, request: Request) -> bool:
    """A request that has just been taken off leaves its blocks where they are; False if nothing is written in them."""
    if not request.settled_computed:
        return False
    _return_promised(state, request)
    request.host_blocks = {}
    state.kept[request] = None
    state.parked_tokens += request.settled_computed
    return True


def move_out(state: State, request: Request) -> bool:
    """The blocks of a kept request go to the host; False where it has no room."""
    private = _written_and_private(state, request)
    assert private is not None and request in state.kept
    if len(private) > len(state.pool.free_host):
        return False
    del state.kept[request]
    _move_out(state, request, private)
    state.parked_tokens -= request.settled_computed - tokens_on_device(request)
    return True


def reclaim(state: State, blocks: int, beneficiary: Request) -> bool:
    """Take kept requests off the device, the last in line first, until so many blocks are free; False if they never are.

    Those who pause go before all others, the last to pause first. Of the others, who runs already may have the blocks of
    all; under a preemptive order, who does not of those alone who come after.
    """
    if blocks > state.pool.num_free + state.parked_tokens // state.limits.block_size + len(state.kept):
        return False  # each table of a kept request has at most one block that is not full
    last_first = [request for request in state.swapped.last_first(state.kept) if request is not beneficiary]
    if state.preemptive and beneficiary.state != RUNNING:
        own = key_of(state, beneficiary)
        last_first = [request for request in last_first if is_less(own, key_of(state, request))]
    if state.paused:
        last_first[:0] = [request for request in reversed(state.paused) if request in state.kept]
    private = (request.count_private_blocks() for request in last_first)
    if blocks > state.pool.num_free + sum(private):
        return False
    for request in last_first:
        if blocks <= state.pool.num_free:
            break
        if not move_out(state, request):
            state.swap_fallbacks += 1
            give_up(state, request)
    return True


def move_in(state: State, request: Request) -> bool:
    """The blocks of a swapped request come back ahead of need: it is kept now. False where blocks do not suffice."""
    away = request.host_blocks
    assert away
    if len(away) + state.kept_back() > state.pool.num_free:
        return False
    state.parked_tokens += request.settled_computed - tokens_on_device(request)
    _fetch(state, request, away)
    state.pool.register_rest(request, request.hashed_blocks)  # as when it was preempted: it may yet be given up
    state.pool.free_host += away.values()
    request.host_blocks = {}
    state.kept[request] = None
    return True


def move_ahead(state: State, moves: Iterable[tuple[RequestView, str]]) -> None:
    """The moves that `Policy.background` asks for; those which cannot be made are left out."""
    for view, way in moves:
        request = view._request
        if request.state != SWAPPED or way not in ("in", "out"):
            raise PolicyError(
                f'background() moves swapped requests "in" or "out", not {request.id} ({request.state}) {way!r}'
            )
        if way == "out" and request in state.kept:
            move_out(state, request)
        elif way == "in" and request.host_blocks:
            move_in(state, request)


def _fetch(state: State, request: Request, away: dict[int, int]) -> None:
    """Device blocks for those that are away; their content is on the device again."""
    pool = state.pool
    for (index, host_block), block in zip(away.items(), pool.take(len(away)), strict=True):
        request.block_table[index] = block
        state.transfers.append(Transfer("in", host_block, block))
    state.table_blocks += len(away)
    registered = min(request.hashed_blocks, request.shareable_blocks)
    pool.enter(request, [index for index in away if index < registered])
    request.registered_blocks = registered


def swap_in(state: State, request: Request, budget: int, tokens: int | None = None) -> int:
    """Bring the request back if it fits, and say how many tokens it gets in this step; 0: it does not."""
    away = request.host_blocks
    assert away is not None
    pending = request.pending
    if not pending:
        return 0  # its last token is in flight
    if not state.limits.enable_chunked_prefill and min(pending, state.chunk_limit or pending) > (tokens or budget):
        return 0  # it has come back from a pause with more than fits in this step
    tokens = min(tokens, pending) if tokens else state.chunk(request, pending, budget)
    needed = len(away) + state.blocks_missing(request, request.settled_computed + tokens)
    if not state.has_free(needed + state.kept_back(), request):
        return 0
    if away:
        _fetch(state, request, away)
    state.swapped.remove(request)
    leave_host(state, request)
    return tokens


def give_up(state: State, request: Request) -> None:
    """A swapped request is recomputed instead: what it still holds on the device goes back.

    Without this, swapped requests that keep shared blocks could leave too few for any of them, for ever. One that pauses
    goes on pausing, with nothing.
    """
    keep_device_part(request)
    leave_host(state, request)
    state.swaps_given_up += 1
    if request.state == PAUSED:
        lose(state, request)
    else:
        state.swapped.remove(request)
        start_over(state, request)


def unlock(state: State, swapped_too: bool = True) -> bool:
    """Nothing runs, and what others hold on the device locks the head out: give one of them up; False if there is none."""
    for request in reversed(state.paused):
        if tokens_on_device(request):
            give_up(state, request)
            return True
    if state.swapped and swapped_too:
        give_up(state, state.swapped[-1])
        return True
    return False


def keep_device_part(request: Request) -> None:
    """Its table without the blocks that are away. What of it counted as hashed was registered when it was preempted."""
    table, hashed = request.block_table, request.hashed_blocks
    request.registered_blocks = request.hashed_blocks = sum(block is not None for block in table[:hashed])
    request.block_table = [block for block in table if block is not None]


def leave_host(state: State, request: Request) -> None:
    """Its host blocks are free, it is not parked any more; what becomes of the request is the caller's affair."""
    assert request.host_blocks is not None
    state.parked_tokens -= tokens_on_device(request)
    state.pool.free_host += request.host_blocks.values()
    request.host_blocks = None
    state.kept.pop(request, None)
