"""The executor of the simulator: a latency model in place of a GPU, and the record of what it did.

A flight is a step between its launch and its landing. Single steps are planned and landed one by one; a stretch of equal
decode steps is taken at once, with the same floats: it goes up to and including the step during which a foreign event comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import NamedTuple

from mypy_extensions import mypyc_attr

from twin.core.batch import Batch, Features
from twin.core.errors import Stall
from twin.core.request import Request
from twin.core.scheduler import Scheduler
from twin.latency.model import LatencyModel
from twin.sim.decisions import DecisionLog
from twin.sim.recorder import RequestTable, TokenTimes
from twin.sim.step_table import StepTable, standing
from twin.sim.swap_link import SwapLink

FRUITLESS_PREEMPTIONS = 1000  # and 4 a seat, since the last token came: nobody will ever end


class Flight(NamedTuple):
    """A step between its launch and its landing."""

    batch: Batch
    start_s: float
    end_s: float
    blocks: int  # held while it runs
    tokens: int  # ... in these blocks


@mypyc_attr(allow_interpreted_subclasses=True)
class VirtualDevice:
    """`now_s` is the clock of its replica, `free_s` when the last step launched ends.

    An engine's device is this one with other ways to `launch` a step, to `finish` it, and to `wait_until` a time.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        latency: LatencyModel,
        link: SwapLink,
        requests: RequestTable,
        after: Callable[[int, float], None],
        replica: int = 0,
    ) -> None:
        """`after(row, now_s)` is told of each request that has ended."""
        self.scheduler, self.latency, self.link = scheduler, latency, link
        self.requests, self.after = requests, after
        self.steps = StepTable(replica, scheduler.limits.num_blocks)
        self.tokens = TokenTimes()
        self.log: DecisionLog | None = None
        self.now_s = self.free_s = 0.0
        self.on_pause: Callable[[Request], None] = lambda request: None  # told of each that begins to pause
        self.ended = 0
        self.fruitless = 0  # preemptions since the last token came

    def end(self, request: Request) -> None:
        """The request, or one of its samples, has come to its end now."""
        self.ended += 1
        if self.log is not None:
            self.log.ended(request)
        if self.requests.ended(request, self.now_s):
            self.after(request.index, self.now_s)

    def plan(self) -> Flight:
        """The scheduler's next step, launched now."""
        scheduler = self.scheduler
        now_s = self.now_s
        batch = scheduler.plan(now_s)
        pool = scheduler.state.pool
        start_s = now_s if batch.features is None else max(now_s, self.free_s)
        end_s = self.launch(batch, start_s)
        if batch.features is not None:
            self.free_s = end_s
        if batch.preempted:
            self._watch_for_livelock(len(batch.preempted))
        for request in batch.rejected:
            self.end(request)
        if self.log is not None:
            self.log.planned(batch, now_s, start_s, end_s)
        return Flight(batch, start_s, end_s, pool.num_blocks - pool.num_free, scheduler.state.held_tokens())

    def launch(self, batch: Batch, start_s: float) -> float:
        """Begin to compute the batch, if there is anything to compute; when that ends."""
        if batch.features is None:
            return start_s
        moved = sum(transfer.way != "copy" for transfer in batch.transfers)
        return self.link.end_of_step(start_s, self.latency.step_s(batch.features), moved)

    def finish(self, flight: Flight) -> Flight:
        """Wait for the oldest step in flight (asynchronous scheduling); it may know only now when it ended."""
        return flight

    def wait_until(self, time_s: float) -> None:
        """There was nothing to do before this time."""
        self.now_s = max(self.now_s, time_s)

    def outcome_of(self, batch: Batch, aborted: list[Request]) -> tuple[Iterable[Request], Mapping[Request, str]]:
        """Who saw the end of its sequence in the batch, and who failed in it (-> why): an engine knows.

        The `aborted` do not get their token of it any more.
        """
        return (), {}

    def land(self, flight: Flight, aborted: list[Request]) -> None:
        """The step ends; aborts come before its tokens."""
        scheduler, state = self.scheduler, self.scheduler.state
        batch, start_s, end_s, blocks, tokens = flight
        self.now_s = max(self.now_s, end_s)
        stopped, failed = self.outcome_of(batch, aborted)
        if self.log is not None:
            self.log.landing(batch, self.now_s, [*aborted, *failed])
        before_s, during = state.decoders.rested_since_s, standing(state)
        if before_s is None:
            before_s = state.last_landing_s
        ended = scheduler.commit(self.now_s, stopped, aborted, failed)
        if batch.features is not None:
            if batch.regular or batch.entered or any(aside.yields for aside in batch.asides):
                self.fruitless = 0
            if batch.regular:
                assert before_s is not None
                self.tokens.add(before_s, self.now_s, batch.regular)
            for forerunner_s in scheduler.landing.forerunners:
                self.tokens.add(forerunner_s, self.now_s, 1)
        for request in ended:
            self.end(request)
        for request in scheduler.paused_now:
            self.on_pause(request)
        row = None if self.log is None else self.log.landed(batch, ended)
        if batch.features is not None or batch.preempted:
            self.steps.add_step(state, batch, during, start_s, end_s, blocks, tokens)
        if row is not None:  # right behind the other record: an interruption finds neither, or both
            assert self.log is not None
            self.log.emit(row)

    def _watch_for_livelock(self, preemptions: int) -> None:
        """All that is computed is lost again before it yields a token: the run would go on for ever."""
        self.fruitless += preemptions
        if self.fruitless > FRUITLESS_PREEMPTIONS + 4 * self.scheduler.limits.max_num_seqs:
            raise Stall(f"{self.fruitless} preemptions in a row, and not one token came")

    def stretch(self, steps: int, until_s: float, aborts_come: bool) -> bool:
        """Synchronous fast-forward, until a foreign event; False if the step by step way has to be gone."""
        decoders = self.scheduler.state.decoders
        if self.scheduler.steady_until_s <= self.now_s:
            return False
        until_s = min(until_s, self.scheduler.steady_until_s)
        sequences, context = decoders.count, decoders.context_after_step()
        ends = self.latency.stretch(self.now_s, sequences, context, steps, until_s)
        if aborts_come and ends[-1] >= until_s:
            ends.pop()  # an abort may come during the last step: that one by itself
            self.latency.take_back(1)
            if not ends:
                return False
        steps = len(ends)
        start_s, self.now_s = self.now_s, ends[-1]
        self.free_s = self.now_s
        before_s = self.scheduler.state.last_landing_s  # an arrival may have moved now_s on, by a rounding, since
        assert before_s is not None
        self.tokens.add_stretch(before_s, ends, sequences)
        left = self._advance(steps)
        context += (steps - 1) * sequences
        held = self.scheduler.held
        self.steps.add_stretch(self.scheduler.state, sequences, context, start_s, self.now_s, held, steps, left)
        return True

    def _advance(self, steps: int) -> int:
        """So many decode steps have landed by now; how many requests have left with the last."""
        ended = self.scheduler.advance(steps, self.now_s)
        for request in ended:
            self.end(request)
        for request in self.scheduler.paused_now:
            self.on_pause(request)
        return len(ended) + len(self.scheduler.paused_now)

    def stretch_ahead(self, steps: int, flight: Flight, until_s: float, aborts_come: bool) -> Flight | None:
        """Asynchronous fast-forward: `steps` more are launched, and as many land; the last launched stays in flight.

        Ends:  e0 (in flight) | e1 ... ek (launched now); landed: e0 ... ek-1, the first of which at or after a foreign
        event is the last, since what it brings is seen by the plan that follows.
        """
        state, decoders = self.scheduler.state, self.scheduler.state.decoders
        batch, start_s, end_s, blocks, tokens = flight
        if self.scheduler.steady_until_s <= self.now_s:
            return None
        until_s = min(until_s, self.scheduler.steady_until_s)
        sequences, context = decoders.count, decoders.context_after_step()
        ends = self.latency.stretch(end_s, sequences, context, steps, until_s)
        if end_s < until_s and len(ends) < steps:  # stopped by the event: the step that it sees is launched too
            ends += self.latency.stretch(ends[-1], sequences, context + len(ends) * sequences, 1, -inf)
        if aborts_come and (ends[-2] if len(ends) > 1 else end_s) >= until_s:
            ends.pop()
            self.latency.take_back(1)
            if not ends:
                return None
        landed = [end_s, *ends[:-1]]
        before_s = state.last_landing_s
        assert before_s is not None and batch.features is not None
        self.now_s = landed[-1]
        self.free_s = ends[-1]
        steps = len(ends)
        self.tokens.add_stretch(before_s, landed, sequences)
        last = context + (steps - 2) * sequences  # context after the last step that landed
        left = self._advance(steps)
        scheduler = self.scheduler
        most, block_steps, token_steps = scheduler.held  # of those launched here that landed; the first was in flight
        held = (max(most, blocks) if steps > 1 else blocks, blocks + block_steps, tokens + token_steps)
        self.steps.add_stretch(scheduler.state, sequences, last, start_s, landed[-1], held, steps, left)
        batch.features = Features(sequences, 0, sequences, last + sequences)
        pool = state.pool
        return Flight(batch, landed[-1], ends[-1], pool.num_blocks - pool.num_free, state.held_tokens())
