"""What becomes of the blocks of a preempted request: they stay, go to the host, or are given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.core.errors import PolicyError
from twin.core.request import SWAPPED, Request
from twin.core.restart import start_over
from twin.core.swap import keep, swap_out

if TYPE_CHECKING:
    from twin.core.state import State


def vacate(state: State, request: Request, mode: str | None, seat: bool) -> str:
    """The request has just been taken off: it waits again, or stands among the swapped. Says by which mode.

    Where blocks cannot be kept they are swapped out, and where they cannot be swapped out they are recomputed.
    """
    mode = _mode_for(state, request, mode)
    if mode == "keep" and not (seat and not state.pool.reserves and keep(state, request)):
        mode = "swap"
    if mode == "swap" and (state.pool.reserves or not swap_out(state, request)):
        state.swap_fallbacks += 1
        mode = "recompute"
    if mode == "recompute":
        start_over(state, request)
    else:
        request.state = SWAPPED
        state.swapped.park(request)
    state.swaps += mode == "swap"
    state.keeps += mode == "keep"
    return mode


def _mode_for(state: State, request: Request, mode: str | None) -> str:
    """The plan's wish, or the policy's answer, or the option."""
    if mode is None:
        mode = state.rules.preemption_mode if state.policy.mode is None else state.policy.mode(request.view, state.view)
    if mode == "auto":
        mode = "swap" if state.cheaper_mode is None else state.cheaper_mode(request)
    if mode not in ("recompute", "swap", "keep"):
        raise PolicyError(f'a preemption is by mode "recompute", "swap" or "keep", not {mode!r}')
    return mode
