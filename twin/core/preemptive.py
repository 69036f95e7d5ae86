"""Preemptive orders: a head of the queue takes the seat, or the blocks, of running requests that come after it."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from twin.core.batch import Batch
from twin.core.beams import together
from twin.core.errors import PolicyError
from twin.core.limits import blocks_for
from twin.core.ordered import is_less, key_of
from twin.core.request import Request
from twin.core.reservation import blocks_reserved

if TYPE_CHECKING:
    from twin.core.state import State

Ranked = tuple[Any, float, Request]  # by (order, arrival)


class Ranking:
    """Who runs, by the policy's order, in one plan: each is asked for its key once, when that is needed first.

    Where the keys of running requests never grow (`state.keys_only_fall`) most heads need no ranking: nobody who runs comes
    after a head whose key is not less than `state.largest_key`.
    """

    def __init__(self, state: State, batch: Batch) -> None:
        self.state, self.batch = state, batch
        self.ranked: list[Ranked] | None = None  # in running order

    def make_seat(self, head: Request, seats: int) -> bool:
        """Take seats from the last in order, as long as they come after the head."""
        key = key_of(self.state, head)
        while len(self.state.running) >= seats:
            last = self._last_after(key)
            if last is None:
                return False
            self._take_off(last, seat=True)
        return True

    def make_room(self, head: Request) -> bool:
        """Take blocks from the last in order, if the head comes before it and all such blocks together are enough."""
        state, key = self.state, key_of(self.state, head)
        last = self._last_after(key)
        if last is None:
            return False
        needed = (
            blocks_reserved(state, head) if state.pool.reserves else blocks_for(head.known_tokens, state.limits.block_size)
        )
        within_reach = state.pool.num_free - state.watermark_blocks
        for other, _, request in self._entries():
            if needed > within_reach and is_less(key, other):
                within_reach += request.count_private_blocks()
        if needed > within_reach:
            return False
        self._take_off(last)
        return True

    def add(self, request: Request) -> None:
        """It has come in."""
        state = self.state
        if self.ranked is None and state.largest_key is None:
            return
        key = key_of(state, request)
        if self.ranked is not None:
            self.ranked.append((key, request.arrival_s, request))
        if state.largest_key is not None and is_less(state.largest_key, key):
            state.largest_key = key

    def _entries(self) -> list[Ranked]:
        if self.ranked is None:
            state = self.state
            self.ranked = [(key_of(state, request), request.arrival_s, request) for request in state.running]
        return self.ranked

    def _last_after(self, key: Any) -> Request | None:
        """The one with the largest (order, arrival), the first in the list on a tie, if it comes after the key."""
        state = self.state
        if state.largest_key is not None and not is_less(key, state.largest_key):
            return None  # nobody's key has grown since, and whoever has come in since is accounted for
        if not (entries := self._entries()):
            return None
        try:
            largest, _, last = max(entries, key=itemgetter(0, 1))
        except (TypeError, ValueError) as error:
            raise PolicyError(f"order() returned keys of running requests that do not compare ({error})") from error
        if is_less(key, largest):
            return last
        if state.keys_only_fall:
            state.largest_key = largest
        return None

    def _take_off(self, victim: Request, seat: bool = False) -> None:
        """Preempt; what this step had given the victim, and the beams beside it, returns to the budget."""
        batch, gone = self.batch, together(victim)
        given = 1 if victim.base is not None and not batch.rests else 0
        given += sum(tokens for request, tokens in batch.chunks if request in gone)
        batch.chunks = [(request, tokens) for request, tokens in batch.chunks if request not in gone]
        batch.budget += given
        self.ranked = [entry for entry in self._entries() if entry[-1] not in gone]
        victim = gone[0]
        batch.preempted = {**batch.preempted, victim: self.state.preempt(victim, given, seat=seat)}
