"""One replica: a simpy process that lets the scheduler plan, asks the latency model how long a step takes, and lands it.

It looks at the time of the next foreign event (an arrival, an abort, another replica) and goes on without simpy as long as
its own next step ends before that: the results are those of a process that waits for each step, with fewer events. `now_s`
is its own clock, which may be ahead of simpy's, never behind an event that concerns it.

A stretch of equal decode steps is taken at once (`forward`), up to and including the step during which a foreign event
comes; step by step gives the same floats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from math import inf
from typing import Any

import simpy
from simpy.events import Event

from twin.core.batch import Batch, Features
from twin.core.errors import Stall
from twin.core.request import ENDED, Request
from twin.core.scheduler import Scheduler
from twin.latency.model import LatencyModel
from twin.sim.decisions import DecisionLog
from twin.sim.events import At
from twin.sim.recorder import RequestTable, StepTable, TokenTimes, standing
from twin.sim.swap_link import SwapLink

FRUITLESS_PREEMPTIONS = 1000  # and 4 a seat, since the last token came: nobody will ever end
Flight = tuple[Batch, float, float, int, int]  # start_s, end_s, blocks and tokens held while it runs


class Halt(Exception):
    """The run ends here: `Replica.error` says why."""


class TimeLimit(Exception):
    """The run has taken as long as it may."""


class Replica:
    """The process, and what it records."""

    def __init__(
        self,
        env: simpy.Environment,
        scheduler: Scheduler,
        latency: LatencyModel,
        link: SwapLink,
        requests: RequestTable,
        after: Callable[[int, float], None],
        forward: bool = True,
        number: int = 0,
    ) -> None:
        self.env, self.scheduler, self.latency, self.link = env, scheduler, latency, link
        self.requests, self.after, self.forward = requests, after, forward
        self.steps = StepTable(number, scheduler.limits.num_blocks)
        self.tokens = TokenTimes()
        self.log: DecisionLog | None = None
        self.on_tick: Callable[[], None] | None = None  # every so many plans or stretches: progress, time limits
        self.ticks = 0
        self.now_s = 0.0
        self.device_free_s = 0.0
        self.inbox: deque[Request] = deque()
        self.to_abort: list[Request] = []
        self.aborts_come = False
        self.idle: Event | None = None
        self.max_waiting = 0
        self.ended = 0
        self.fruitless = 0  # preemptions since the last token came
        self.error: Exception | None = None  # what ended the run
        self.process = env.process(self._guarded())

    # --- what comes from outside

    def arrive(self, request: Request) -> None:
        self.requests.arrived(request)
        self.inbox.append(request)
        self._wake()

    def abort(self, request: Request) -> None:
        """Takes effect when the step under way has ended, before its tokens are counted."""
        self.to_abort.append(request)
        self._wake()

    def _wake(self) -> None:
        if self.idle is not None:
            idle, self.idle = self.idle, None
            idle.succeed()

    def _take_in(self) -> None:
        """What has come until now: arrivals in their order, aborts."""
        scheduler = self.scheduler
        while self.inbox:
            request = self.inbox.popleft()
            if self.now_s < request.arrival_s:
                self.now_s = request.arrival_s
            if request in self.to_abort:
                self.to_abort.remove(request)
                request.state, request.reason = "aborted", "abort"
                self._end(request)
            elif scheduler.add(request) is not None:
                self._end(request)
        waiting = len(scheduler.state.waiting)
        if waiting > self.max_waiting:
            self.max_waiting = waiting

    def _end(self, request: Request) -> None:
        self.ended += 1
        if self.requests.ended(request, self.now_s):
            self.after(request.index, self.now_s)

    # --- the two loops

    def _guarded(self) -> Generator[Event, Any, None]:
        """The loop; whatever a policy's code may raise ends the run here, and `simulate` says whose fault it was."""
        try:
            yield from self._asynchronous() if self.scheduler.rules.async_scheduling else self._synchronous()
        except TimeLimit:
            raise
        except Exception as error:
            self.error = error
            raise Halt from error

    def _tick(self) -> None:
        if self.on_tick is not None:
            self.on_tick()

    def _synchronous(self) -> Generator[Event, Any, None]:
        env, scheduler = self.env, self.scheduler
        while True:
            self.ticks += 1
            if not self.ticks & 255:
                self._tick()
            if env.peek() <= self.now_s:
                yield At(env, self.now_s)  # what happens at this very time comes first
            if self.inbox:
                self._take_in()
            if self.to_abort:
                self._abort_now()
            if not scheduler.busy:
                yield from self._until_something_happens()
                continue
            if self.forward and (steps := scheduler.horizon()) and self._stretch(steps):
                continue
            flight = self._plan(self.now_s)
            batch, _, end_s, *_ = flight
            if batch.empty and not batch.preempted:
                self._land(flight)
                yield from self._until_something_happens(stalled=True)
                continue
            if self.aborts_come and env.peek() <= end_s:
                yield At(env, end_s)
            self._land(flight)

    def _asynchronous(self) -> Generator[Event, Any, None]:
        env, scheduler = self.env, self.scheduler
        queue: deque[Flight] = deque()
        while True:
            self.ticks += 1
            if not self.ticks & 255:
                self._tick()
            if env.peek() <= self.now_s:
                yield At(env, self.now_s)
            if self.inbox:
                self._take_in()
            if self.to_abort and not queue:
                self._abort_now()
            if not scheduler.busy and not queue:
                yield from self._until_something_happens()
                continue
            if scheduler.busy:
                if self.forward and len(queue) == 1 and (steps := scheduler.horizon()):
                    flight = self._stretch_ahead(steps, queue[0])
                    if flight is not None:
                        queue[0] = flight
                        continue
                queue.append(self._plan(self.now_s))
                idle = not queue[-1][0].preempted and all(batch.empty for batch, *_ in queue)
                if len(queue) < 2 and not idle:
                    continue
                if idle:
                    while queue:
                        self._land(queue.popleft())
                    yield from self._until_something_happens(stalled=True)
                    continue
            flight = queue.popleft()
            end_s = max(self.now_s, flight[2])
            if self.aborts_come and env.peek() <= end_s:
                yield At(env, end_s)
            self._land(flight)

    def _until_something_happens(self, stalled: bool = False) -> Generator[Event, Any, None]:
        """Nothing can be done before the next foreign event; if there is none while something waits, this is a stall."""
        if stalled and not self.inbox and not self.to_abort and self.env.peek() == inf:
            raise Stall("requests wait, nothing is scheduled and no event is due")
        if not self.inbox and not self.to_abort:
            self.idle = Event(self.env)
            yield self.idle
        self.now_s = max(self.now_s, self.env.now)

    def _abort_now(self) -> None:
        """Aborts while no step is in flight."""
        for request in self._aborted():
            self.scheduler.abort(request)
            self._end(request)

    def _aborted(self) -> list[Request]:
        aborted = [
            sample
            for request in self.to_abort
            if request not in self.inbox
            for sample in request.siblings or [request]
            if sample.state not in ENDED
        ]
        self.to_abort = [request for request in self.to_abort if request in self.inbox]
        return aborted

    # --- steps

    def _plan(self, now_s: float) -> Flight:
        scheduler = self.scheduler
        batch = scheduler.plan(now_s)
        pool = scheduler.state.pool
        start_s = end_s = now_s
        if batch.features is not None:
            start_s = max(now_s, self.device_free_s)
            moved = batch.swapped_in_blocks + batch.swapped_out_blocks
            end_s = self.link.end_of_step(start_s, self.latency.step_s(batch.features), moved)
            self.device_free_s = end_s
        if batch.preempted:
            self._watch_for_livelock(len(batch.preempted))
        for request in batch.rejected:
            self._end(request)
        if self.log is not None:
            self.log.planned(batch, now_s, start_s, end_s)
        return batch, start_s, end_s, pool.num_blocks - pool.num_free, scheduler.state.held_tokens()

    def _land(self, flight: Flight) -> None:
        scheduler, state = self.scheduler, self.scheduler.state
        batch, start_s, end_s, blocks, tokens = flight
        self.now_s = max(self.now_s, end_s)
        aborted = self._aborted() if self.to_abort else []
        if self.log is not None:
            self.log.landing(batch, self.now_s, aborted)
        before_s, during = state.last_landing_s, standing(state)
        ended = scheduler.commit(self.now_s, aborted=aborted)
        if batch.features is not None:
            if batch.regular or batch.entered or batch.asides:
                self.fruitless = 0
            if batch.regular:
                assert before_s is not None
                self.tokens.add(before_s, self.now_s, batch.regular)
            for forerunner_s in scheduler.landing.forerunners:
                self.tokens.add(forerunner_s, self.now_s, 1)
        for request in ended:
            self._end(request)
        if batch.features is not None or batch.preempted:
            self.steps.add_step(state, batch, during, start_s, end_s, blocks, tokens)
        if self.log is not None:
            self.log.landed(batch, ended)

    def _watch_for_livelock(self, preemptions: int) -> None:
        """All that is computed is lost again before it yields a token: the run would go on for ever."""
        self.fruitless += preemptions
        if self.fruitless > FRUITLESS_PREEMPTIONS + 4 * self.scheduler.limits.max_num_seqs:
            raise Stall(f"{self.fruitless} preemptions in a row, and not one token came")

    def _stretch(self, steps: int) -> bool:
        """Synchronous fast-forward; False if the step by step way has to be gone."""
        decoders = self.scheduler.state.decoders
        until_s = self.env.peek()
        sequences, context = decoders.count, decoders.context_after_step()
        ends = self.latency.stretch(self.now_s, sequences, context, steps, until_s)
        if self.aborts_come and ends[-1] >= until_s:
            ends.pop()  # an abort may come during the last step: that one by itself
            if not ends:
                return False
        steps = len(ends)
        start_s, self.now_s = self.now_s, ends[-1]
        self.device_free_s = self.now_s
        self.tokens.add_stretch(start_s, ends, sequences)
        ended = self._advance(steps)
        context += (steps - 1) * sequences
        held = self.scheduler.held
        self.steps.add_stretch(self.scheduler.state, sequences, context, start_s, self.now_s, held, steps, len(ended))
        return True

    def _advance(self, steps: int) -> list[Request]:
        """So many decode steps have landed by now."""
        ended = self.scheduler.advance(steps, self.now_s)
        for request in ended:
            self._end(request)
        return ended

    def _stretch_ahead(self, steps: int, flight: Flight) -> Flight | None:
        """Asynchronous fast-forward: `steps` more are launched, and as many land; the last launched stays in flight.

        Ends:  e0 (in flight) | e1 ... ek (launched now); landed: e0 ... ek-1, the first of which at or after a foreign
        event is the last, since what it brings is seen by the plan that follows.
        """
        state, decoders = self.scheduler.state, self.scheduler.state.decoders
        batch, start_s, end_s, blocks, tokens = flight
        until_s = self.env.peek()
        sequences, context = decoders.count, decoders.context_after_step()
        ends = self.latency.stretch(end_s, sequences, context, steps, until_s)
        if end_s < until_s and len(ends) < steps:  # stopped by the event: the step that it sees is launched too
            ends += self.latency.stretch(ends[-1], sequences, context + len(ends) * sequences, 1, -inf)
        if self.aborts_come and (ends[-2] if len(ends) > 1 else end_s) >= until_s:
            ends.pop()
            if not ends:
                return None
        landed = [end_s, *ends[:-1]]
        before_s = state.last_landing_s
        assert before_s is not None and batch.features is not None
        self.now_s = landed[-1]
        self.device_free_s = ends[-1]
        steps = len(ends)
        self.tokens.add_stretch(before_s, landed, sequences)
        last = context + (steps - 2) * sequences  # context after the last step that landed
        ended = self._advance(steps)
        scheduler = self.scheduler
        most, block_steps, token_steps = scheduler.held  # of those launched here that landed; the first was in flight
        held = (max(most, blocks) if steps > 1 else blocks, blocks + block_steps, tokens + token_steps)
        self.steps.add_stretch(scheduler.state, sequences, last, start_s, landed[-1], held, steps, len(ended))
        batch.features = Features(sequences, 0, sequences, last + sequences)
        pool = state.pool
        return batch, landed[-1], ends[-1], pool.num_blocks - pool.num_free, state.held_tokens()

    def describe(self) -> str:
        """The state, in one line."""
        state = self.scheduler.state
        head = state.waiting.head() if state.waiting else None
        head_words = "" if head is None else f", the head of the queue is {head.id} with {head.known_tokens} tokens"
        return (
            f"at {self.now_s:.6g} s, {len(state.running)} running, {len(state.waiting)} waiting, "
            f"{len(state.swapped)} swapped, {state.pool.num_free} of {state.pool.num_blocks} blocks free{head_words}"
        )
