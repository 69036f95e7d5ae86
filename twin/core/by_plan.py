"""Carrying out a plan of the policy's own (`Policy.schedule`), on the real pool, while it is made.

A whole-plan policy decides who gets what; the arithmetic of blocks, budget and seats is the core's, so `take` says no where
they do not suffice, and what a policy may never do (preempt twice, take for a request that has ended) is refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twin.core.admission import ask, reject
from twin.core.batch import Batch
from twin.core.beams import together
from twin.core.errors import IllegalPlan
from twin.core.request import RUNNING, SWAPPED, WAITING, Request
from twin.core.step import complete, give, hand_out, place_of_victim
from twin.core.swap import unlock
from twin.policy import Answer

if TYPE_CHECKING:
    from twin.core.state import State


class PlannedStep:
    """The step under way: what has been given, and to whom."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.budget = state.limits.max_num_batched_tokens
        state.set_chunk_limit()
        self.given: dict[Request, int] = {}
        self.decodes_taken = False  # all lazy decoders have their token; they are not in `given`
        self.preempted: dict[Request, str] = {}
        self.gone_beams: set[Request] = set()  # preempted, or nobody's any more since one beside them was
        self.admitted: list[Request] = []
        self.swapped_in: list[Request] = []
        self.rejected: list[Request] = []

    def take(self, request: Request, tokens: Any) -> bool:
        """So many, or all that is pending (None); False where blocks, budget or seats do not suffice."""
        state = self.state
        if self.decodes_taken and request.base is not None:
            raise IllegalPlan(f"a plan may give tokens to a request once: {request.id} has 1 already")
        if tokens is None and request.base is not None and self._has_slot(request) and request not in self.given:
            self.given[request] = 1
            self.budget -= 1
            return True
        if request in self.given:
            raise IllegalPlan(f"a plan may give tokens to a request once: {request.id} has {self.given[request]} already")
        if request in self.gone_beams:
            return False
        if request.state not in (WAITING, RUNNING, SWAPPED):
            raise IllegalPlan(f"a plan may give tokens to a request that is there: {request.id} is {request.state}")
        if request in self.preempted or request.stale:
            return False  # preempted in this step, or tokens of its last life are still in flight
        if request.state == RUNNING and not request.pending:
            return True  # asynchronous: all that it can still get is in flight
        wanted = state.chunk(request, request.pending, self.budget) if tokens is None else tokens
        if type(wanted) is not int or wanted < 0:
            raise IllegalPlan(f"tokens must be a positive integer: {wanted!r} for request {request.id}")
        if not 1 <= wanted <= self.budget:
            return False
        if request.state == RUNNING:
            granted = self._continue(request, wanted)
        elif len(state.running) + state.unforked_seats + request.samples > state.limits.max_num_seqs:
            return False
        elif state.policy.admit is not None and not self._may_come_in(request):
            return False
        else:
            granted = self._bring_in(request, wanted)
        if not granted:
            return self._unlock(request) and self.take(request, tokens)
        self.given[request] = granted
        self.budget -= granted
        return True

    def take_decodes(self) -> bool:
        """A token for each lazy decoder, in O(blocks to hand out)."""
        state, decoders = self.state, self.state.decoders
        if self.decodes_taken or any(request.base is not None for request in self.given):
            return False
        if self.budget < decoders.count or not hand_out(state, state.pool.num_free):
            return False
        self.decodes_taken = decoders.count > 0
        self.budget -= decoders.count
        return True

    def all_given(self) -> dict[Request, int]:
        """Who gets how much; the decodes first, where all were taken at once."""
        if not self.decodes_taken:
            return self.given
        decodes = {request: 1 for request in self.state.running if request.base is not None}
        return decodes | self.given

    def _has_slot(self, request: Request) -> bool:
        """The usual case by a short way: a lazy decoder with room in its last block, which nobody else waits to share."""
        decoders = self.state.decoders
        assert request.base is not None
        filled = (request.base + decoders.launched) % decoders.block_size
        return filled > 0 and self.budget > 0 and request not in decoders.sharers

    def _continue(self, request: Request, tokens: int) -> int:
        state = self.state
        if tokens > request.pending:
            if not request.pending:
                return 0  # asynchronous: its last token is in flight
            raise IllegalPlan(f"no more than what is pending: {tokens} > {request.pending} for request {request.id}")
        computed = request.computed + tokens
        missing = state.blocks_missing(request, computed)
        if not state.has_free(missing, request):
            return 0
        give(state, request, computed, missing)
        return tokens

    def _may_come_in(self, request: Request) -> bool:
        """What `admit` says of it, as of the head of the queue in a step by the rules."""
        answer = ask(self.state, request)
        if answer == Answer.NEVER:
            reject(self.state, request)
            self.rejected.append(request)
        return answer == Answer.ADMIT

    def _bring_in(self, request: Request, tokens: int) -> int:
        was_swapped = request.state == SWAPPED
        granted = self.state.admit(request, self.budget, tokens)
        if granted:
            (self.swapped_in if was_swapped else self.admitted).append(request)
        return granted

    def _unlock(self, request: Request) -> bool:
        """Nothing runs and the request does not fit: what those who pause, or are swapped as it is, keep locks it out."""
        state = self.state
        if state.running or request.placeholders or request.state == RUNNING:
            return False
        return unlock(state, request.state == SWAPPED)

    def victim(self) -> Request:
        """The victim by the rules, among all that run but those who came in with this plan."""
        new = (*self.admitted, *self.swapped_in)
        running = [request for request in self.state.running if request not in new]
        if not running:
            raise IllegalPlan("there is nobody to preempt")
        return running[place_of_victim(self.state, running)]

    def preempt(self, request: Request, mode: str | None) -> None:
        if request in self.gone_beams:
            return
        if request in self.admitted or request in self.swapped_in:
            raise IllegalPlan(f"a plan may not preempt whom it admits: request {request.id}")
        returned = 1 if self.decodes_taken and request.base is not None else 0
        gone = together(request)
        request = gone[0]
        if (returned or request in self.given) and self.state.lends(request):
            raise IllegalPlan(
                f"a plan may not preempt who computes, in this step, what a request that it admits shares: "
                f"request {request.id}; preempt before you admit"
            )
        returned += sum(self.given.pop(member, 0) for member in gone)
        self.budget += returned
        if request.beams is not None:
            self.gone_beams.update(gone)
        self.preempted[request] = self.state.preempt(request, returned, mode, seat=True)

    def batch(self) -> Batch:
        """The plan is complete."""
        batch = complete(self.state, self.budget, self.given, self.preempted, self.decodes_taken)
        batch.admitted, batch.swapped_in, batch.rejected = self.admitted, self.swapped_in, self.rejected
        return batch
