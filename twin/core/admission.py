"""The waiting phase, and what may make room for a head that was refused.

Only the head of the queue is asked: if it does not fit, all behind it wait (head-of-line blocking is real). A refusal
stands until an event (arrival of a new head, finish, preemption), because between events free blocks only become fewer and
seats stay taken:

    refused for a seat     a finish is needed
    refused for room       a finish is needed, or, with prefix caching, a decoder that fills a block which the head would
                           share: steps_before_head_can_share; or another head, if order() may change: order_may_help

With a preemptive order a refused head may take the place of requests that come after it in that order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twin.core.batch import Batch
from twin.core.errors import PolicyError
from twin.core.limits import blocks_for
from twin.core.ordered import is_less, key_of
from twin.core.preemptive import Ranking
from twin.core.request import REJECTED, SWAPPED, Request
from twin.core.start import exceeds_budget
from twin.core.swap import unlock
from twin.policy import Answer

if TYPE_CHECKING:
    from twin.core.state import State

NO_SEAT, NO_ROOM = "no seat", "no room"


def admit_heads(state: State, batch: Batch) -> str | None:
    """Take in heads of the queue, while seats, budget and blocks last. Says why the next one was refused."""
    ranking = Ranking(state, batch) if state.preemptive else None
    while state.waiting or state.swapped:
        request = _next_in_line(state, batch, ranking is not None) if state.swapped else state.waiting.head()
        if request is None or request in batch.preempted or request.stale:
            return NO_ROOM
        seats = state.limits.max_num_seqs - state.unforked_seats
        wanted = seats - (request.samples - 1)
        if len(state.running) >= wanted and not (ranking and ranking.make_seat(request, wanted)):
            return NO_SEAT if len(state.running) >= seats and not (ranking and ranking.lent) else NO_ROOM
        if batch.budget <= 0:
            return NO_ROOM
        if state.policy.admit is not None:
            answer = ask(state, request)
            if answer == Answer.NEVER:
                reject(state, request)
                batch.rejected.append(request)
                continue
            if answer == Answer.LATER:
                return NO_ROOM
        was_swapped = request.state == SWAPPED
        tokens = state.admit(request, batch.budget)
        if tokens:
            batch.chunks.append((request, tokens))
            (batch.swapped_in if was_swapped else batch.admitted).append(request)
            batch.budget -= tokens
            if ranking:
                ranking.add(request)
        elif (state.swapped or state.paused) and not state.running and not request.placeholders and unlock(state):
            continue  # what the others kept on the device would have locked it out
        elif not ranking or was_swapped or exceeds_budget(state, request, batch.budget) or not ranking.make_room(request):
            return NO_ROOM
    return None


def set_stale_aside(state: State) -> list[Request]:
    """Heads with tokens of an ended life in flight are passed over for now; the caller puts them back in front."""
    waiting, aside = state.waiting, []
    while (head := waiting.head()) is not None and head.stale:
        aside.append(head)
        waiting.pop(head)
    return aside


def _next_in_line(state: State, batch: Batch, preemptive: bool) -> Request | None:
    """The head: swapped requests come before waiting ones, but not in a step that preempted.

    Under a preemptive order a waiting request may come before them: else it would preempt in vain.
    """
    head = state.waiting.head()
    swapped = None if batch.preempted else state.swapped.first()
    if not preemptive:
        return swapped
    if swapped is None or head is None:
        return swapped or head
    return head if is_less(key_of(state, head), key_of(state, swapped)) else swapped


def ask(state: State, request: Request) -> Answer:
    """What the policy says of a request that would come in."""
    assert state.policy.admit is not None
    answer: Any = state.policy.admit(request.view, state.view)
    if answer not in (Answer.ADMIT, Answer.LATER, Answer.NEVER):
        raise PolicyError(f"admit() must answer ADMIT, LATER or NEVER, not {answer!r}")
    return Answer(answer)


def reject(state: State, request: Request) -> None:
    """The policy never takes it."""
    if request.state == SWAPPED:
        raise PolicyError(f"admit() answered NEVER for request {request.id}, which has run already")
    state.waiting.pop(request)
    request.state, request.reason = REJECTED, f"policy {type(state.policy).__name__} answered NEVER"


# --- how long a refusal stands


def order_may_help(state: State) -> bool:
    """May another head, that order() could come to prefer while nothing else happens, fit where this one does not?"""
    if not state.policy.dynamic or state.swapped:
        return False
    if state.pool.caches or state.pool.reserves:
        return True
    block_size, free = state.limits.block_size, state.pool.num_free
    return any(blocks_for(head.known_tokens, block_size) <= free for head in state.waiting.heads())


def steps_before_head_can_share(state: State, steps: int) -> int:
    """How many of the next `steps` decode steps fill no block that the refused head waits to share.

    Keys are chained, so equal keys stand at equal indices.
    """
    head = state.waiting.head()
    if head is None:
        return steps
    decoders, wanted = state.decoders, head.block_keys
    for ahead in range(steps):
        step = decoders.launched + ahead
        for request in decoders.filling_block(ahead):
            assert request.base is not None
            index = (request.base + step) // decoders.block_size
            if index < len(wanted) and index < len(request.block_keys) and request.block_keys[index] == wanted[index]:
                return ahead
    return steps
