"""Beam search: beams of one request that go on together, each from the one that the search says.

They are samples of a request (fork.py) with one difference: what a step computes for a beam is no token yet. When it has
been computed for all of them, the search chooses: for each beam of the coming step the beam that it continues. Tables
follow: survivors are forked before losers are freed, so that no block that somebody needs is ever free in between (Kwon et
al., SOSP 2023, section 4.4 and figure 9).

    before   A.0 [ 0 1 3 5 ]   A.1 [ 0 1 3 6 ]   A.2 [ 0 1 3 7 ]   A.3 [ 0 2 4 8 ]     parents 1 1 2 2
    after    A.0 [ 0 1 3 6 ]   A.1 [ 0 1 3 6 ]   A.2 [ 0 1 3 7 ]   A.3 [ 0 1 3 7 ]     free: 5, 2 4 8

A beam that is preempted takes the others with it: the request begins again as its prompt, and finds the same. Content of
beams is not entered in the prefix cache beyond the prompt, for a beam's blocks have come from several.

The search is the driver's (an engine that knows logits). Synchronous scheduling alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twin.core.request import ABORTED, Request

if TYPE_CHECKING:
    from twin.core.state import State


class Beams:
    """Shared by the beams of a request: who they are, and for whom the step's logits are there."""

    def __init__(self, choose: Callable[[list[Request]], list[int]], restart: Callable[[list[Request]], None]) -> None:
        """`choose(members)` says for each beam that lives on the index of the member that it continues, [] at the end.

        `restart(others)`: the request has lost all but its prompt, and the beams that were beside its first one.
        """
        self.choose, self.restart = choose, restart
        self.members: list[Request] = []
        self.computed: set[Request] = set()

    def has_computed(self, request: Request) -> bool:
        """The logits of one more beam are there; whether all are."""
        self.computed.add(request)
        return len(self.computed) == len(self.members)


def branch(state: State, beams: Beams) -> list[Request]:
    """All logits are there: every beam takes its place for the coming step. Returns those whose search is over."""
    members = beams.members
    beams.computed.clear()
    parents = beams.choose(members)
    assert len(parents) <= len(members)
    pool = state.pool
    tables = [pool.fork(members[parent].block_table) for parent in parents]
    for member, table in zip(members, tables, strict=False):
        registered = member.registered_blocks
        pool.release_blocks(member.block_table, registered, registered)
        state.table_blocks += len(table) - len(member.block_table)
        member.block_table = table
        member.forked = True
    over = members[len(parents) :]
    for member in over:
        member.stop_after = member.settled_generated + 1
    beams.members = members[: len(parents)]
    return over


def together(request: Request) -> list[Request]:
    """Who leaves when the request is preempted: itself, or all beams of its family, the first of them in front."""
    return list(request.beams.members) if request.beams is not None and request.beams.members else [request]


def collapse(state: State, members: list[Request]) -> None:
    """All beams become the request that they were: its first one, with nothing but the prompt."""
    first, *others = members
    beams = first.beams
    assert beams is not None
    for member in members:
        member.hashed_blocks = min(member.hashed_blocks, member.own_from)
    for member in others:
        del state.running[member]
        state.prefills.pop(member, None)
        state.release(member)
        member.state = ABORTED  # it is nobody's any more
    first.settled_generated = first.placeholders = 0
    first.samples, first.siblings, first.forked = len(first.siblings), [], False
    beams.members = []
    beams.computed.clear()
    beams.restart(others)
