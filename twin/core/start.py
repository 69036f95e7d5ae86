"""From the queue into a seat: the cached prefix is shared, and the whole of the request must fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.core.limits import blocks_for
from twin.core.request import Request
from twin.core.reservation import blocks_reserved
from twin.core.swap import reclaim

if TYPE_CHECKING:
    from twin.core.state import State


def start(state: State, request: Request, budget: int, asked: int | None) -> int:
    """Take the request from the queue if it fits, and say how many tokens it gets; 0: it has to wait.

    `asked`: a whole-plan policy's own wish, in tokens.
    """
    pool, limits = state.pool, state.limits
    hits = pool.lookup(request) if pool.caches else []
    known_tokens = request.known_tokens
    cached = len(hits) * limits.block_size
    pending = known_tokens - cached
    whole = min(pending, state.chunk_limit or pending)
    if not limits.enable_chunked_prefill and whole > (budget if asked is None else asked):
        return 0
    # a plan asks before it knows of the hits
    tokens = state.chunk(request, pending, budget) if asked is None else min(asked, pending)
    # the whole of it must fit, though only the first chunk is computed now; a hit in the free list is taken from it
    room_for = known_tokens if state.rules.scheduler_reserve_full_isl else cached + tokens
    needed = blocks_reserved(state, request) if pool.reserves else blocks_for(room_for, limits.block_size)
    needed -= len(hits)
    if hits:
        needed += pool.free_among(hits)
    if needed + state.kept_back() > pool.num_free:
        if state.kept and reclaim(state, needed + state.kept_back(), request):
            return start(state, request, budget, asked)  # some of the hits may be free blocks now
        return 0
    if pool.reserves and not pool.can_take(needed):
        return 0
    if hits:
        pool.share(hits)
    state.waiting.pop(request)
    request.block_table = pool.take(needed) if pool.reserves else hits
    state.table_blocks += len(request.block_table)
    request.registered_blocks = request.hashed_blocks = len(hits)
    request.settled_computed = cached
    if request.cached_tokens is None:
        request.cached_tokens = cached
        if pool.caches:
            state.cache_queries += request.prompt_tokens
            state.cache_hits += cached
    else:
        state.recompute_hits += cached
    return tokens


def exceeds_budget(state: State, request: Request, budget: int) -> bool:
    """Without chunked prefill: it has to be computed at once, and this is more than the step has left."""
    limits = state.limits
    if limits.enable_chunked_prefill:
        return False
    cached = len(state.pool.lookup(request)) * limits.block_size if state.pool.caches else 0
    pending = request.known_tokens - cached
    return min(pending, state.chunk_limit or pending) > budget
