"""Many decode steps at once: how many are certain, by the state and by the policy, and passing over them."""

from __future__ import annotations

from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Any

from twin.core.admission import steps_before_head_can_share
from twin.core.errors import PolicyError

if TYPE_CHECKING:
    from twin.core.state import State

EVER = 1 << 60  # steps


def decode_steps(state: State, refused_for_room: bool) -> int:
    """How many of the coming steps the state allows to be one token for each decoder and nothing else."""
    decoders, limits = state.decoders, state.limits
    if state.prefills or state.ending or not decoders.count or decoders.rested_since_s is not None:
        return 0
    if decoders.count > limits.max_num_batched_tokens:
        return 0
    if state.rules.async_scheduling and not _flight_is_uniform(state):
        return 0
    steps = decoders.next_day() - decoders.launched
    if not state.pool.reserves:
        steps = decoders.steps_with_blocks(steps, state.pool.num_free)
    elif state.policy.reserve is not None:
        steps = decoders.steps_with_tables(steps)
    head_comes_first = not state.swapped or state.preemptive or state.policy.schedule is not None
    if decoders.sharers and refused_for_room and head_comes_first:
        if state.rules.async_scheduling:
            return 0
        steps = steps_before_head_can_share(state, steps)
    return steps


def _flight_is_uniform(state: State) -> bool:
    """One step is in flight, and each lazy decoder has one token of it, and nobody else has."""
    if len(state.in_flight) != 1:
        return False
    batch = state.in_flight[0]
    moves = batch.swapped_in_blocks or batch.swapped_out_blocks
    if batch.features is None or batch.chunks or batch.asides or batch.preempted or moves:
        return False
    return batch.regular == state.decoders.count == batch.features.sequences


def how_long_steady(state: State) -> tuple[float, int]:
    """For how long the policy lets the decisions of the plan just made stand: until when, seconds; for how many steps."""
    policy, view = state.policy, state.view
    until_s: Any = inf
    steps: Any = EVER
    if policy.steady_until is not None:
        until_s = policy.steady_until(view)
        if not isinstance(until_s, (int, float)):
            raise PolicyError(f"steady_until() must return seconds, not {until_s!r}")
    if policy.steady_steps is not None:
        steps = policy.steady_steps(view)
        if not isinstance(steps, int):
            raise PolicyError(f"steady_steps() must return a number of steps, not {steps!r}")
    if state.standing is not None:
        steps = min(steps, state.standing.steady_steps())
    return until_s, steps


def pass_steps(state: State, steps: int, now: float) -> tuple[int, int, int]:
    """So many decode steps are done, the last of which ends at `now`; who ends with them is still to be taken out.

    Returns, of those that landed: the most blocks held in a step, blocks and tokens held summed over the steps.
    Asynchronous: as many are launched as land, and the last one launched stays in flight.
    """
    pool, decoders = state.pool, state.decoders
    asynchronous = state.rules.async_scheduling
    landing = steps - 1 if asynchronous else steps  # of those launched here
    blocks, tokens = pool.num_blocks - pool.num_free, state.held_tokens()
    taken = [0] * steps if pool.reserves else list(accumulate(decoders.grow(pool, steps)))  # by the end of each step
    state.table_blocks += taken[-1]
    held = (
        blocks + (taken[landing - 1] if landing else 0),
        blocks * landing + sum(taken if landing == steps else taken[:landing]),
        tokens * landing + decoders.count * landing * (landing + 1) // 2,
    )
    if decoders.sharers:
        decoders.register(pool, decoders.landed + steps)
    decoders.launched += steps
    decoders.landed += steps
    decoders.known_step = decoders.landed
    if asynchronous:
        state.in_flight[0].number = decoders.launched
    state.last_landing_s = now
    state.now = max(state.now, now)
    return held
