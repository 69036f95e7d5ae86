"""The running phase of a step, twice: as it is defined, and as it is mostly done.

`walk` is the definition, request by request in running order. `shortcut` gives the same result in O(blocks to hand out),
and declines whenever it is not certain that nobody is preempted and nobody is left without tokens. A random test holds
them equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.core.batch import Batch
from twin.core.beams import together
from twin.core.decoders import by_admission
from twin.core.errors import PolicyError
from twin.core.request import Request
from twin.core.swap import reclaim

if TYPE_CHECKING:
    from twin.core.state import State


def walk(state: State) -> Batch:
    """Each running request gets its tokens, or blocks are taken from victims until it does, or it is the victim itself."""
    pool = state.pool
    budget = state.limits.max_num_batched_tokens
    running = list(state.running)
    given: dict[Request, int] = {}
    preempted: dict[Request, str] = {}
    position = 0
    while position < len(running) and budget > 0:
        request = running[position]
        pending = request.pending
        if not pending:  # asynchronous: all that it can still get is in flight
            position += 1
            continue
        tokens = 1 if request.base is not None else state.chunk(request, pending, budget)
        computed = request.computed + tokens
        while (missing := state.blocks_missing(request, computed)) > pool.num_free:
            if state.kept and reclaim(state, missing, request):
                continue
            place = place_of_victim(state, running)
            gone = together(running[place])
            for victim in gone:
                before = running.index(victim) < position
                position -= before and (victim in given or not state.rules.victim_skips_next)
                running.remove(victim)
            returned = sum(given.pop(victim, 0) for victim in gone)
            budget += returned
            preempted[gone[0]] = state.preempt(gone[0], returned)
            if request in gone:
                break
        else:  # it fits
            give(state, request, computed, missing)
            given[request] = tokens
            budget -= tokens
            position += 1
            continue
        if state.rules.self_victim_ends_phase:
            break  # it was its own victim: those behind it get nothing
    return complete(state, budget, given, preempted)


def give(state: State, request: Request, computed: int, missing: int) -> None:
    """Blocks for one request's tokens of this step."""
    if request.base is None:
        state.grow(request, computed)
        return
    if missing:
        request.block_table += state.pool.take(missing)
        state.table_blocks += missing
    decoders = state.decoders
    if request in decoders.sharers:
        state.pool.register(request, request.base + max(decoders.landed + 1, request.entered))


def complete(
    state: State, budget: int, given: dict[Request, int], preempted: dict[Request, str], all_decode: bool = False
) -> Batch:
    """The running phase is over: decoders that were given nothing are lazy no longer, unless all of them rest.

    `all_decode`: all have been given their token.
    """
    decoders = state.decoders
    rests = state.may_rest and decoders.count > 0 and not all_decode and all(request.base is None for request in given)
    if decoders.count and not all_decode and not rests:
        left_out = [request for request in state.running if request.base is not None and request not in given]
        for request in left_out:
            state.leave_lazy(request)
        if left_out:  # prefills stand in running order
            state.prefills = dict.fromkeys(sorted([*state.prefills, *left_out], key=by_admission))
    chunks = [(request, tokens) for request, tokens in given.items() if request.base is None]
    batch = Batch(state, budget, chunks, preempted)
    batch.rests = rests
    return batch


def place_of_victim(state: State, running: list[Request]) -> int:
    """Who gives way among these, in order of admission: whom the policy chooses, else the last."""
    choose = state.policy.victim
    if choose is None:
        return len(running) - 1
    victim = choose([request.view for request in running], state.view)
    for place, request in enumerate(running):
        if request.view is victim:
            return place
    raise PolicyError(f"victim() chose {victim!r}, which is not one of the running requests")


def hand_out(state: State, free_blocks: int) -> bool:
    """A block for each decoder that needs one in this step, if they and the tables set aside suffice; else nothing."""
    decoders, pool = state.decoders, state.pool
    if pool.reserves:
        if state.policy.reserve is not None and not decoders.steps_with_tables(1):
            return False  # the walk says who has outgrown its reservation
    elif len(decoders.needing_block()) > free_blocks:
        return False
    else:
        state.table_blocks += sum(decoders.grow(pool, 1))
    if decoders.sharers:
        decoders.register(pool, decoders.landed + 1)
    return True


def shortcut(state: State) -> Batch | None:
    """The same, when blocks and budget are certain to suffice and all decoders stand before all prefills."""
    decoders, pool, prefills = state.decoders, state.pool, state.prefills
    budget = state.limits.max_num_batched_tokens - decoders.count
    if budget < 0:
        return None
    chunks, needed = [], 0
    if prefills:
        if next(iter(prefills)).admission < decoders.last_admission:
            return None
        for request in prefills:
            if budget <= 0:
                break
            pending = request.pending
            if not pending:
                continue
            tokens = state.chunk(request, pending, budget)
            budget -= tokens
            needed += state.blocks_missing(request, request.settled_computed + tokens)
            chunks.append((request, tokens))
    if not hand_out(state, pool.num_free - needed):
        return None
    for request, tokens in chunks:
        state.grow(request, request.settled_computed + tokens)
    return Batch(state, budget, chunks)
