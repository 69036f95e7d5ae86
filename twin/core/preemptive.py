"""Preemptive orders: a head of the queue takes the seat, or the blocks, of running requests that come after it.

Who has come in earlier in the same plan may share a block that only this step fills. Then whoever fills it cannot give its
tokens back any more, and the head waits for the next plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any

from twin.core.batch import Batch
from twin.core.beams import together
from twin.core.limits import blocks_for
from twin.core.ordered import is_less, key_of
from twin.core.request import Request
from twin.core.reservation import blocks_reserved
from twin.core.standing import Ranked, do_not_compare, ranked

if TYPE_CHECKING:
    from twin.core.state import State


class Ranking:
    """Who runs, by the policy's order, in one plan: each is asked for its key once, when that is needed first.

    Where the keys of running requests never grow (`state.keys_only_fall`) most heads need no ranking: nobody who runs comes
    after a head whose key is not less than `state.largest_key`. Where the policy says how long keys stand (`key_steps`)
    those of the lazy decoders are kept from plan to plan (`state.standing`).
    """

    def __init__(self, state: State, batch: Batch) -> None:
        self.state, self.batch = state, batch
        self.lent = False  # somebody was spared for what it lends: a matter of this plan alone
        self.asked: list[Ranked] | None = None  # in this plan: all that run, less those of `state.standing`

    def make_seat(self, head: Request, seats: int) -> bool:
        """Take seats from the last in order, as long as they come after the head."""
        key = key_of(self.state, head)
        while len(self.state.running) >= seats:
            last = self._last_after(key)
            if last is None or self._lends(last):
                return False
            self._take_off(last, seat=True)
        return True

    def make_room(self, head: Request) -> bool:
        """Take blocks from the last in order, if the head comes before it and all such blocks together are enough."""
        state, key = self.state, key_of(self.state, head)
        last = self._last_after(key)
        if last is None or self._lends(last):
            return False
        needed = (
            blocks_reserved(state, head) if state.pool.reserves else blocks_for(head.known_tokens, state.limits.block_size)
        )
        within_reach = state.pool.num_free - state.watermark_blocks
        kept = takewhile(lambda entry: is_less(key, entry.key), self._kept())
        for entry in chain(kept, (entry for entry in self._asked() if is_less(key, entry.key))):
            if needed <= within_reach:
                break
            within_reach += entry.request.count_private_blocks()
        if needed > within_reach:
            return False
        self._take_off(last)
        return True

    def add(self, request: Request) -> None:
        """It has come in."""
        state = self.state
        if self.asked is None and state.largest_key is None:
            return
        place = ranked(state, request)
        if self.asked is not None:
            self.asked.append(place)
        if state.largest_key is not None and is_less(state.largest_key, place.key):
            state.largest_key = place.key

    def _asked(self) -> list[Ranked]:
        if self.asked is None:
            state = self.state
            if state.standing is not None:
                state.standing.renew()
            requests = state.running if state.standing is None else state.standing.loose()
            self.asked = [ranked(state, request) for request in requests]
        return self.asked

    def _kept(self) -> Iterable[Ranked]:
        """The others, the last in order first."""
        return () if self.state.standing is None else self.state.standing.last_first()

    def _last_after(self, key: Any) -> Request | None:
        """The last in order, if it comes after the key."""
        state = self.state
        if state.largest_key is not None and not is_less(key, state.largest_key):
            return None  # nobody's key has grown since, and whoever has come in since is accounted for
        asked = self._asked()
        try:
            last = max(chain(asked, islice(self._kept(), 1)), default=None)
        except (TypeError, ValueError) as error:
            raise do_not_compare(error) from error
        if last is None:
            return None
        if is_less(key, last.key):
            return last.request
        if state.keys_only_fall:
            state.largest_key = last.key
        return None

    def _lends(self, victim: Request) -> bool:
        if self._given(victim) and self.state.lends(victim):
            self.lent = True
            return True
        return False

    def _given(self, victim: Request) -> int:
        """The tokens that this step has given it, and the beams beside it."""
        batch, gone = self.batch, together(victim)
        given = 1 if victim.base is not None and not batch.rests else 0
        return given + sum(tokens for request, tokens in batch.chunks if request in gone)

    def _take_off(self, victim: Request, seat: bool = False) -> None:
        """Preempt; what this step had given the victim, and the beams beside it, returns to the budget."""
        batch, gone, given = self.batch, together(victim), self._given(victim)
        batch.chunks = [(request, tokens) for request, tokens in batch.chunks if request not in gone]
        batch.budget += given
        self.asked = [entry for entry in self._asked() if entry.request not in gone]
        victim = gone[0]
        batch.preempted = {**batch.preempted, victim: self.state.preempt(victim, given, seat=seat)}
