"""One replica: a simpy process that lets the scheduler plan, asks the latency model how long a step takes, and lands it.

It looks at the time of the next foreign event (an abort, a pause that is over, another replica) and of the next arrival, and
goes on without simpy as long as its own next step ends before that: the results are those of a process that waits for each
step, with fewer events. `now_s` is its own clock, which may be ahead of simpy's, never behind an event that concerns it.

What a step does, and stretches of equal steps at once (`forward`), is device.py's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from math import inf
from typing import Any

import simpy
from simpy.events import Event

from twin.core.errors import Stall
from twin.core.request import ABORTED, ENDED, NEW, PAUSED, Request
from twin.core.scheduler import Scheduler
from twin.sim.arrivals import Arrivals
from twin.sim.device import Flight, VirtualDevice
from twin.sim.events import EARLY_S, At, call_at


class Halt(Exception):
    """The run ends here: `Replica.error` says why."""


class TimeLimit(Exception):
    """The run has taken as long as it may."""


class Replica:
    """The process, and what waits at its door: in `inbox` arrivals and those whose pause is over, in `to_abort` requests to
    give up."""

    def __init__(
        self,
        env: simpy.Environment,
        scheduler: Scheduler,
        device: VirtualDevice,
        arrivals: Arrivals,
        forward: bool = True,
    ) -> None:
        self.env, self.scheduler, self.device, self.forward = env, scheduler, device, forward
        self.arrivals = arrivals
        self.on_tick: Callable[[], None] | None = None  # every so many plans or stretches: progress, time limits
        self.predict: Callable[[Request], None] | None = None  # what is known of a request when the scheduler takes it in
        self.ticks, self.tick_mask = 0, 255
        self.inbox: deque[Request] = deque()
        self.to_abort: list[Request] = []
        self.aborts_come = False
        self.idle: Event | None = None
        self.max_waiting = 0
        self.error: BaseException | None = None  # what ended the run
        device.on_pause = self._pause
        self.process = env.process(self._guarded())

    # --- what comes from outside

    def arrive(self, request: Request) -> None:
        self.device.requests.arrived(request)
        self.inbox.append(request)
        self._wake()

    def abort(self, request: Request) -> None:
        """Takes effect when the step under way has ended, before its tokens are counted."""
        self.to_abort.append(request)
        self._wake()

    def _pause(self, request: Request) -> None:
        """It comes back when its pause is over, as others arrive."""
        assert request.resumes_s is not None
        call_at(self.env, request.resumes_s - EARLY_S, lambda event: self._return(request))

    def _return(self, request: Request) -> None:
        self.arrivals.deliver(self.env.now)
        if request.state == PAUSED:  # it was not aborted
            self.inbox.append(request)
            self._wake()

    def _wake(self) -> None:
        if self.idle is not None:
            idle, self.idle = self.idle, None
            idle.succeed()

    def _take_in(self) -> None:
        """What has come until now: arrivals and those whose pause is over in their order, aborts."""
        scheduler, device = self.scheduler, self.device
        while self.inbox:
            request = self.inbox.popleft()
            if request.state != NEW:
                self._take_back(request)
                continue
            if device.now_s < request.arrival_s:
                device.now_s = request.arrival_s
            if request in self.to_abort:
                self.to_abort.remove(request)
                request.state, request.reason = ABORTED, "abort"
                device.end(request)
                continue
            if self.predict is not None:
                self.predict(request)
            if scheduler.add(request) is not None:
                device.end(request)
        waiting = len(scheduler.state.waiting)
        if waiting > self.max_waiting:
            self.max_waiting = waiting

    def _take_back(self, request: Request) -> None:
        """Its pause is over, unless it is to be given up, or has been in the meantime."""
        if request.state != PAUSED or request in self.to_abort:
            return
        assert request.resumes_s is not None
        if self.device.now_s < request.resumes_s:
            self.device.now_s = request.resumes_s
        self.scheduler.resume(request)

    # --- the two loops

    def _guarded(self) -> Generator[Event, Any, None]:
        """The loop; whatever a policy's code may raise ends the run here, and `simulate` says whose fault it was."""
        try:
            yield from self._asynchronous() if self.scheduler.rules.async_scheduling else self._synchronous()
        except (TimeLimit, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a policy is somebody else's code: it may even try to leave the process
            self.error = error
            raise Halt from error

    def _tick(self) -> None:
        if self.on_tick is not None:
            self.on_tick()

    def _synchronous(self) -> Generator[Event, Any, None]:
        env, arrivals, scheduler, device = self.env, self.arrivals, self.scheduler, self.device
        while True:
            self.ticks += 1
            if not self.ticks & self.tick_mask:
                self._tick()
            if env.peek() <= device.now_s:
                yield At(env, device.now_s)  # what happens at this very time comes first
            if arrivals.next_s <= device.now_s:
                arrivals.deliver(device.now_s)
            if self.inbox:
                self._take_in()
            if self.to_abort:
                self._abort_now()
            if not scheduler.busy:
                yield from self._until_something_happens()
                continue
            if self.forward and (steps := scheduler.horizon()):
                until_s = min(env.peek(), arrivals.next_s)
                if device.stretch(steps, until_s, self.aborts_come):
                    continue
            flight = device.plan()
            if flight.batch.empty and not flight.batch.preempted:
                device.land(flight, self._aborted_with_step())
                if not flight.batch.rejected:
                    yield from self._until_something_happens(stalled=True)
                continue
            if self.aborts_come and env.peek() <= flight.end_s:
                yield At(env, flight.end_s)
            device.land(flight, self._aborted_with_step())

    def _asynchronous(self) -> Generator[Event, Any, None]:
        env, arrivals, scheduler, device = self.env, self.arrivals, self.scheduler, self.device
        queue: deque[Flight] = deque()
        while True:
            self.ticks += 1
            if not self.ticks & self.tick_mask:
                self._tick()
            if env.peek() <= device.now_s:
                yield At(env, device.now_s)
            if arrivals.next_s <= device.now_s:
                arrivals.deliver(device.now_s)
            if self.inbox:
                self._take_in()
            if self.to_abort and not (queue and self.scheduler.rules.abort_before_update):
                self._abort_now()
            if not scheduler.busy and not queue:
                yield from self._until_something_happens()
                continue
            if scheduler.busy:
                if self.forward and len(queue) == 1 and (steps := scheduler.horizon()):
                    until_s = min(env.peek(), arrivals.next_s)
                    ahead = device.stretch_ahead(steps, queue[0], until_s, self.aborts_come)
                    if ahead is not None:
                        queue[0] = ahead
                        continue
                queue.append(device.plan())
                newest = queue[-1].batch
                idle = not (newest.preempted or newest.rejected) and all(flight.batch.empty for flight in queue)
                if len(queue) < 2 and not idle:
                    continue
                if idle:
                    while queue:
                        device.land(queue.popleft(), self._aborted())
                    yield from self._until_something_happens(stalled=True)
                    continue
            flight = device.finish(queue.popleft())
            end_s = max(device.now_s, flight.end_s)
            if self.aborts_come and env.peek() <= end_s:
                yield At(env, end_s)
            device.land(flight, self._aborted_with_step())

    def _until_something_happens(self, stalled: bool = False) -> Generator[Event, Any, None]:
        """Nothing can be done before the next foreign event, or the time for which the policy has announced other decisions.

        If neither comes while something waits, this is a stall.
        """
        env, arrivals = self.env, self.arrivals
        if not self.inbox and not self.to_abort:
            until_s = self.scheduler.steady_until_s if stalled else inf
            announced = self.device.now_s < until_s < inf
            if stalled and not announced and min(env.peek(), arrivals.next_s) == inf:
                raise Stall("requests wait, nothing is scheduled and no event is due")
            comes_first = min(env.peek(), until_s if announced else inf)
            if arrivals.next_s < inf and arrivals.next_s <= comes_first:
                self.device.wait_until(arrivals.next_s)
                return
            self.idle = Event(env)
            if announced:
                At(env, until_s).callbacks.append(lambda _: self._wake())
            if arrivals.next_s < inf:
                call_at(env, arrivals.next_s, lambda _: arrivals.deliver(env.now))
            yield self.idle
        self.device.wait_until(self.env.now)

    def _abort_now(self) -> None:
        """Aborts while no step is in flight."""
        for request in self._aborted():
            self.scheduler.abort(request)
            self.device.end(request)

    def _aborted_with_step(self) -> list[Request]:
        """Who loses the tokens of the step that has just ended; else they are taken out when its tokens have come."""
        return self._aborted() if self.scheduler.rules.abort_before_update else []

    def _aborted(self) -> list[Request]:
        if not self.to_abort:
            return []
        aborted = [
            sample
            for request in self.to_abort
            if request.state != NEW
            for sample in request.siblings or [request]
            if sample.state not in ENDED
        ]
        self.to_abort = [request for request in self.to_abort if request.state == NEW]  # still at the door
        return aborted

    def describe(self) -> str:
        """The state, in one line; it runs no code of the policy's, whose keys or pick() may be what has failed."""
        state = self.scheduler.state
        head = state.waiting.head_as_it_stands()
        head_words = "" if head is None else f", the head of the queue is {head.id} with {head.known_tokens} tokens"
        return (
            f"at {self.device.now_s:.6g} s, {len(state.running)} running, {len(state.waiting)} waiting, "
            f"{len(state.swapped)} swapped, {state.pool.num_free} of {state.pool.num_blocks} blocks free{head_words}"
        )
