"""The two ends of a step's flight: what a launch promises a request, and what becomes of it when the step has ended.

Most members of a batch are lazy decoders, before and after: nobody touches them. By name go those whose chunk completes what
is known of them (they enter the decoders at the launch), and the *asides*: who left the decoders while the batch was in
flight, because they were preempted, passed over, or their last token is on its way.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from twin.core.batch import Aside, Batch
from twin.core.beams import branch
from twin.core.decoders import by_admission
from twin.core.fork import fork_samples
from twin.core.request import ABORTED, ENDED, FINISHED, PAUSED, RUNNING, SWAPPED, WAITING, Request
from twin.core.swap import keep_device_part, leave_host

if TYPE_CHECKING:
    from twin.core.state import State


class Landing:
    """Launch and landing of single requests; `forerunners`: of those who landed by name, when the token before came."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.forerunners: list[float] = []  # seconds, of the last step that landed

    # --- launch

    def launch(self, batch: Batch) -> None:
        """What the batch computes counts as computed from here on."""
        state, decoders = self.state, self.state.decoders
        state.in_flight.append(batch)
        if not batch.computes:
            return
        batch.features = batch.measure()
        if batch.rests:
            if decoders.rested_since_s is None:
                decoders.rested_since_s = state.last_landing_s
        else:
            self._tick(batch)
        batch.number = decoders.launched
        self._launch_chunks(batch)

    def _tick(self, batch: Batch) -> None:
        """All lazy decoders have their token of this batch."""
        decoders = self.state.decoders
        batch.regular = decoders.count
        if decoders.latecomers:
            batch.latecomers = [late for late in decoders.latecomers if late.base is not None]
            batch.regular -= len(batch.latecomers)
        if decoders.per_user is not None:
            batch.by_user = dict(decoders.per_user)
        decoders.known_step = decoders.landed + 1
        decoders.launched += 1

    def _launch_chunks(self, batch: Batch) -> None:
        """Prompts that are complete fork into their samples."""
        to_fork = [request for request, tokens in batch.chunks if self._launch_chunk(batch, request, tokens)]
        for request in to_fork:  # behind all others, in running order
            for sibling in fork_samples(self.state, request):
                self._yields_in(batch, sibling)
            self._yields_in(batch, request)

    def _launch_chunk(self, batch: Batch, request: Request, tokens: int) -> bool:
        """True if the request has its prompt computed and is to fork."""
        state = self.state
        computed = request.settled_computed
        if computed < request.high_water:
            request.recomputed_tokens += min(tokens, request.high_water - computed)
        request.settled_computed = computed = computed + tokens
        if computed < request.known_tokens + request.placeholders:
            state.prefills[request] = None
            return False
        if request.samples > 1:
            state.prefills[request] = None
            return True
        self._yields_in(batch, request)
        return False

    def _yields_in(self, batch: Batch, request: Request) -> None:
        """A token of this batch will come for it: from here on it decodes, lazily if it can."""
        state, decoders = self.state, self.state.decoders
        if request.placeholders or request.forked or request.beams is not None:
            request.placeholders += 1
            state.prefills[request] = None
            batch.asides.append(Aside(request, request.admission, yields=True, stale=False))
        else:
            state.prefills.pop(request, None)
            decoders.enter(request, batch.number)
            batch.entered.append(request)
        if decoders.per_user is not None:
            batch.by_user[request.user] = batch.by_user.get(request.user, 0) + 1

    # --- landing

    def land(self, batch: Batch, now: float) -> list[Request]:
        """The tokens of the batch arrive. Returns those who have all of theirs, or pause, in the order of the batch."""
        self.forerunners = []
        for request in batch.latecomers:
            if request.base is not None:
                assert request.last_token_s is not None
                self.forerunners.append(request.last_token_s)
        for request in batch.entered:
            if request.base is not None and request.entered == batch.number:
                if request.first_token_s is None:
                    request.first_token_s = request.last_token_s = now
                else:
                    self._stamp(request, now)
                if batch.rests:
                    self.state.decoders.latecomers[request] = None
        ended = self.leave_landed()
        if batch.asides:
            ended = self._land_asides(batch, now, ended)
        return ended

    def _land_asides(self, batch: Batch, now: float, ended: list[Request]) -> list[Request]:
        places = [(request.admission, request) for request in ended]
        for request, admission, yields, stale in batch.asides:
            if request.state in ENDED:
                continue  # one token more than it wanted
            if stale:
                request.stale -= 1
            if yields and request.beams is not None and not stale:
                for beam in self._land_beam(request, now):
                    places.append((beam.admission, beam))
            elif yields:
                self._append_token(request, stale, now)
                if request.settled_generated >= request.stop_after:
                    places.append((admission, request))
        places.sort(key=itemgetter(0))  # the order in which their blocks come free
        return [request for _, request in places]

    def _land_beam(self, request: Request, now: float) -> list[Request]:
        """The logits of one beam are there; with the last of them every beam gets its token. Returns who ends."""
        assert request.beams is not None
        request.placeholders -= 1
        members = request.beams.members
        if not request.beams.has_computed(request):
            return []
        branch(self.state, request.beams)
        for member in members:
            member.settled_generated += 1
            self._stamp(member, now)
        return [member for member in members if member.settled_generated >= member.stop_after]

    def leave_landed(self) -> list[Request]:
        """Lazy decoders who have all their tokens, or pause. Synchronous: all; asynchronous: whose end was not foreseen."""
        decoders = self.state.decoders
        if not decoders.days or decoders.days[0] > decoders.landed:
            return []
        ended = decoders.leave_landed()
        if len(ended) > 1:
            ended.sort(key=by_admission)
        for batch in self.state.in_flight:
            for request in ended:
                batch.regular -= batch.number > request.entered
        return ended

    def _append_token(self, request: Request, stale: bool, now: float) -> None:
        state = self.state
        request.settled_generated += 1
        if request.state == SWAPPED:
            state.swapped.reorder(request)
        if not stale:
            request.placeholders -= 1
        if request.state == RUNNING and state.pool.caches:
            known = min(request.settled_computed - request.placeholders, request.known_tokens)
            request.hashed_blocks = max(request.hashed_blocks, known // state.limits.block_size)
            state.pool.register(request, known)
        self._stamp(request, now)

    def _stamp(self, request: Request, now: float) -> None:
        if request.first_token_s is None:
            request.first_token_s = now
        elif request.last_token_s is not None:
            self.forerunners.append(request.last_token_s)
        request.last_token_s = now

    # --- the end

    def stop(self, batch: Batch, request: Request) -> None:
        """An engine saw an end-of-sequence token for the request in this batch: no token follows."""
        request.pauses = ()
        request.reason = "stop"
        if request.base is None:
            request.stop_after = request.settled_generated + 1
        else:
            self.state.decoders.end_with_step(request, batch.number)

    def finish(self, request: Request, now: float) -> None:
        request.finish_s, request.reason = now, request.reason or "length"
        self._take_out(request)
        request.state = FINISHED

    def abort(self, request: Request, batch: Batch | None, failure: str | None = None) -> None:
        """Given up: its tokens in flight are dropped, its blocks are free at once.

        With a `failure`, what its blocks hold is not what their hashes say: nobody shall find them.
        """
        state = self.state
        assert request.state in (WAITING, RUNNING, SWAPPED, PAUSED), request
        if request.base is not None:
            hashed = state.decoders.hashed_blocks(request)
            for other in (*state.in_flight, *([batch] if batch is not None else ())):
                counted = other.number > request.entered and not other.rests and request not in other.latecomers
                other.regular -= counted
            state.decoders.leave(request)
            if batch is not None and batch.rests and request in batch.entered:
                request.settled_generated -= 1  # the clock has not ticked: it counts its token from the launch on
            request.hashed_blocks = hashed
        if failure is not None:
            state.pool.disown(request)
            request.hashed_blocks = request.registered_blocks
        self._take_out(request)
        request.state, request.reason = ABORTED, failure or "abort"

    def _take_out(self, request: Request) -> None:
        state = self.state
        if request.state == WAITING:
            state.waiting.remove(request)
            return
        if request.state in (SWAPPED, PAUSED):
            if request.state == SWAPPED:
                state.swapped.remove(request)
            else:
                del state.paused[request]
            if request.host_blocks is None:
                return  # it pauses with nothing
            keep_device_part(request)
            leave_host(state, request)
        else:
            del state.running[request]
            state.unforked_seats -= request.samples - 1
            state.prefills.pop(request, None)
            state.ending.pop(request, None)
        state.release(request)
