"""Parallel sampling: when a prompt is computed, its samples become requests of their own that share its blocks.

Each takes a seat; the full prompt blocks stay shared, and who first writes into a partly filled one copies it, so that n
samples make n - 1 copies and the last one writes in place (Kwon et al., SOSP 2023, section 4.4 and figure 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.core.request import RUNNING, Request

if TYPE_CHECKING:
    from twin.core.state import State


def fork_samples(state: State, request: Request) -> list[Request]:
    """The siblings `family.1` ... of a request `family.0` that has just computed its prompt, running behind all others."""
    siblings = []
    family = request.family
    for number in range(1, request.samples):
        sibling = Request(
            f"{family}.{number}", request.arrival_s, request.prompt_tokens, request.stop_after, request.max_tokens_given,
            index=request.index, user=request.user, session=request.session, priority=request.priority,
            deadline_s=request.deadline_s, predicted_output=request.predicted_output, block_keys=request.block_keys,
            shareable_blocks=request.shareable_blocks,
        )  # fmt: skip
        sibling.family, sibling.pool, sibling.state = family, state.pool, RUNNING
        sibling.max_tokens = request.max_tokens  # less than was given, where max_model_len allows less
        sibling.block_table = state.pool.fork(request.block_table)
        state.table_blocks += len(sibling.block_table)
        sibling.registered_blocks, sibling.hashed_blocks = request.registered_blocks, request.hashed_blocks
        sibling.settled_computed = request.settled_computed
        sibling.settled_generated = request.settled_generated
        sibling.first_scheduled_s, sibling.cached_tokens = request.first_scheduled_s, request.cached_tokens
        state.admissions += 1
        sibling.admission = state.admissions
        state.running[sibling] = None
        siblings.append(sibling)
    state.unforked_seats -= request.samples - 1
    state.largest_key = None
    request.samples = 1
    family_members = [request, *siblings]
    if request.beams is not None:
        request.beams.members = family_members
    for member in family_members:
        member.beams = request.beams
        member.siblings = family_members
        member.forked = True
        member.own_from = request.own_from
    return siblings


def slots_free_in_tails(state: State) -> int:
    """Empty slots of partly filled blocks that samples share, once for each owner but the first."""
    block_size, tails = state.limits.block_size, {}
    for request in (*state.prefills, *state.swapped):
        if request.forked and state.shares_next_block(request):
            computed = request.settled_computed
            tails[request.block_table[computed // block_size]] = block_size - computed % block_size
    return sum(free * (state.pool.references(block) - 1) for block, free in tails.items())
