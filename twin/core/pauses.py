"""Pauses: a request calls a tool, and goes on with its answer.

A pause is (after_tokens, seconds, returned_tokens): when so many tokens have come out the request gives up its seat, for so
long; then the tool's answer joins its context, to be computed as a prompt is. Nobody foresees it: not the policy, and not
asynchronous scheduling, so that the token in flight is dropped as after an end-of-sequence.

    keep        its blocks stay where they are; others who need some may take them (swap.reclaim)
    swap        its blocks go to the host; where that has no room it is recomputed
    recompute   its blocks go back, and it is computed again: what ending the turn, and sending another, comes to

Time is the driver's: `Scheduler.paused_now` says who has just begun to pause, `Request.resumes_s` until when, and the driver
calls `Scheduler.resume`. Abhyankar et al., InferCept (ICML 2024), compare the three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.core.errors import PolicyError
from twin.core.limits import PAUSE_MODES
from twin.core.request import PAUSED, RUNNING, SWAPPED, WAITING, Request
from twin.core.restart import lose
from twin.core.swap import keep, swap_out

if TYPE_CHECKING:
    from twin.core.state import State


def begin(state: State, request: Request, now: float) -> None:
    """It has come to a pause with the token that has just landed."""
    _, seconds, _ = request.pauses[0]
    request.resumes_s = now + seconds
    request.last_token_s = now
    _drop_tokens_in_flight(state, request)
    policy, mode = state.policy, None
    if request.state == RUNNING:
        mode = _leave_running(state, request)
    elif request.state == SWAPPED:  # asynchronous: it was preempted with this token in flight; it keeps what it has
        state.swapped.remove(request)
    else:
        state.waiting.remove(request)
    request.state = PAUSED
    state.paused[request] = None
    if policy.on_pause is not None:
        policy.on_pause(request.view, state.view)
    elif mode is not None and policy.on_preempt is not None:  # it knows of no pauses: its accounts stay right
        policy.on_preempt(request.view, mode, state.view)


def _drop_tokens_in_flight(state: State, request: Request) -> None:
    """What a batch in flight computes for it is nobody's: a lazy decoder that has left is not counted there any more."""
    assert not request.stale and (request.state == RUNNING or not request.placeholders)
    request.settled_computed -= request.placeholders
    request.placeholders = 0
    state.decoders.latecomers.pop(request, None)
    for batch in state.in_flight:
        assert not any(aside.request is request for aside in batch.asides)
        if request in batch.yielding:
            batch.yielding.remove(request)


def _leave_running(state: State, request: Request) -> str:
    """Its seat is free; its blocks go the way that the policy says. Returns which way they went."""
    pool = state.pool
    state.prefills.pop(request, None)
    state.ending.pop(request, None)
    del state.running[request]
    assert request.registered_blocks <= request.hashed_blocks <= request.settled_computed // state.limits.block_size
    pool.register_rest(request, request.hashed_blocks)
    mode = state.rules.pause if state.policy.pause is None else state.policy.pause(request.view, state.view)
    if mode not in PAUSE_MODES:
        raise PolicyError(f'pause() must answer "recompute", "swap" or "keep", not {mode!r}')
    moved = not pool.reserves and (keep(state, request) if mode == "keep" else mode == "swap" and swap_out(state, request))
    if not moved:
        lose(state, request)
        return "recompute"
    return mode


def resume(state: State, request: Request, every_block_shared: bool = False) -> None:
    """The pause is over: the answer joins its context, and it stands in front of those who wait, or among the swapped."""
    assert request.state == PAUSED, request
    del state.paused[request]
    _, _, returned = request.pauses[0]
    if returned:
        _add_to_context(state, request, returned, every_block_shared)
    request.pauses = request.pauses[1:]
    request.pauses_taken += 1
    request.resumes_s = None
    request.face_next_pause()
    policy = state.policy
    if policy.on_resume is not None:
        policy.on_resume(request.view, state.view)
    if request.host_blocks is not None:
        request.state = SWAPPED
        state.swapped.park(request)
        return
    request.state = WAITING
    state.waiting.push_front(request)
    if policy.on_wait is not None:
        policy.on_wait(request.view, state.view)


def _add_to_context(state: State, request: Request, tokens: int, every_block_shared: bool) -> None:
    """Blocks with other content than was known of them, from here on, are its own affair."""
    full = request.known_tokens // state.limits.block_size
    request.block_keys = request.block_keys[:full]
    if not every_block_shared:
        request.shareable_blocks = min(request.shareable_blocks, full)
    request.prompt_tokens += tokens
