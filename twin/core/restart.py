"""Recomputation: what was computed of a request is given up, and it begins again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.core.batch import Aside, Batch
from twin.core.request import WAITING, Request

if TYPE_CHECKING:
    from twin.core.state import State


def start_over(state: State, request: Request) -> None:
    """All that was computed is given up; in the queue it stands where it stood among arrivals: in front."""
    lose(state, request)
    request.state = WAITING
    if state.in_flight:
        request.stale = sum(_disown(batch, request) for batch in state.in_flight)
    state.waiting.push_front(request)
    if state.policy.on_wait is not None:
        state.policy.on_wait(request.view, state.view)


def lose(state: State, request: Request) -> None:
    """Its blocks go back, with all that was computed."""
    state.release(request)
    request.high_water = max(request.high_water, request.settled_computed)
    request.settled_computed = 0
    request.placeholders = 0


def _disown(batch: Batch, request: Request) -> bool:
    """What that batch computes for the request is of a life that has ended; it had a part in the batch."""
    for place, aside in enumerate(batch.asides):
        if aside.request is request and not aside.stale:
            batch.asides[place] = aside._replace(stale=True)
            return True
    if any(member is request for member, _ in batch.chunks):
        batch.asides.append(Aside(request, request.admission, yields=False, stale=True))
        return True
    return False
