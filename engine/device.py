"""The simulator's device with a model in place of a latency model: everything else is the same code.

Time is the run's own. With a `Clock` it is measured: a step lasts from its launch to the moment when its tokens are on the
host, what the host does in between included, so that steps follow each other without a gap and the recorded durations,
replayed in the simulator, give the same decisions. Without one the latency model says how long steps last, as in a scenario.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from engine.choosing import Chosen
from engine.errors import StepFailure
from engine.executor import Executor
from twin.core.batch import Batch, Features
from twin.core.request import Request
from twin.core.state import State
from twin.sim.device import Flight, VirtualDevice
from twin.sim.step_table import StepTable

Watch = Callable[[Batch, float, float], None]  # told of each step that has landed: when it began and ended
NOTHING = Features(0, 0, 0, 0)  # of a step that only preempted


class Clock:
    """Seconds since the run began, on the host. With `skip_idle` nobody sleeps: the clock is set forward."""

    def __init__(self, skip_idle: bool = False) -> None:
        self.skip_idle = skip_idle
        self.zero_s: float | None = None  # of `now_s`

    def now_s(self) -> float:
        """Of the host."""
        return time.perf_counter()

    def done_s(self, chosen: Chosen | StepFailure | None) -> float:
        """When the step was done that has just been waited for: since the run began."""
        return self.at(chosen.done_s if isinstance(chosen, Chosen) else self.now_s())

    def start(self) -> None:
        """Time begins with the first thing that happens."""
        if self.zero_s is None:
            self.zero_s = self.now_s()

    def at(self, now_s: float) -> float:
        assert self.zero_s is not None
        return now_s - self.zero_s

    def sleep_until(self, time_s: float) -> None:
        self.start()
        left_s = time_s - self.at(self.now_s())
        if left_s <= 0:
            return
        if self.skip_idle:
            assert self.zero_s is not None
            self.zero_s -= left_s
        else:
            time.sleep(left_s)


class CpuClock(Clock):
    """CPU time of the calling thread, which must be the one that computes: while others have its core, it stands still.

    Whoever sleeps uses no CPU time, hence idle time is always skipped.
    """

    def __init__(self) -> None:
        super().__init__(skip_idle=True)

    def now_s(self) -> float:
        return time.thread_time()

    def done_s(self, chosen: Chosen | StepFailure | None) -> float:
        return self.at(self.now_s())


def clock_for(options: Mapping[str, Any]) -> Clock:
    """Of `engine.clock` and `engine.skip_idle`."""
    return CpuClock() if options["clock"] == "cpu" else Clock(options["skip_idle"])


class MeasuredSteps(StepTable):
    """A row a step: also what a latency model is told of it, and for how long the device was busy with it."""

    def __init__(self, replica: int, num_blocks: int) -> None:
        super().__init__(replica, num_blocks, merge=False)
        self.device_s = array("d")
        self.of_prefill: list[tuple[int, float, int]] = []  # what a latency model is told of it

    def add_step(self, state: State, batch: Batch, *rest: Any) -> None:
        features = batch.features or NOTHING
        self.of_prefill.append((features.prefill_context_tokens, features.prefill_attention, features.prefill_sequences))
        super().add_step(state, batch, *rest)

    def columns(self) -> dict[str, np.ndarray]:
        context, pairs, parts = np.array(self.of_prefill, float).reshape(-1, 3).T
        return super().columns() | {
            "device_s": np.array(self.device_s),
            "prefill_context_tokens": context.astype(np.int64),
            "prefill_attention": pairs,
            "prefill_sequences": parts.astype(np.int64),
        }


class EngineDevice(VirtualDevice):
    """What a replica drives: plans come from the scheduler, the executor carries them out."""

    def __init__(self, *about: Any, executor: Executor, clock: Clock | None, watch: Watch | None = None) -> None:
        """`about`: what a VirtualDevice wants."""
        super().__init__(*about)
        self.executor, self.clock, self.watch = executor, clock, watch
        self.overlap = self.scheduler.rules.async_scheduling
        self.measured = MeasuredSteps(0, self.scheduler.limits.num_blocks)
        if clock is not None:
            self.steps = self.measured
        self.last_end_s = 0.0

    def launch(self, batch: Batch, start_s: float) -> float:
        if self.clock is not None:
            self.clock.start()
        self.executor.launch(batch)
        if self.clock is None:
            return super().launch(batch, start_s)
        if batch.features is None or self.overlap:
            return start_s  # when it ends is known when it has been waited for
        return self._measured_end(batch, start_s)

    def finish(self, flight: Flight) -> Flight:
        if self.clock is None or flight.batch.features is None:
            return flight
        start_s = max(flight.start_s, self.last_end_s)
        self.last_end_s = self._measured_end(flight.batch, start_s)
        if self.log is not None:
            self.log.rows[flight.batch].update(start_s=start_s, end_s=self.last_end_s)
        return flight._replace(start_s=start_s, end_s=self.last_end_s)

    def _measured_end(self, batch: Batch, start_s: float) -> float:
        assert self.clock is not None
        return max(start_s, self.clock.done_s(self.executor.wait(batch)))

    def wait_until(self, time_s: float) -> None:
        if self.clock is not None:
            self.clock.sleep_until(time_s)
        super().wait_until(time_s)

    def outcome_of(self, batch: Batch, aborted: list[Request]) -> tuple[Iterable[Request], Mapping[Request, str]]:
        return self.executor.settle(batch, aborted)

    def land(self, flight: Flight, aborted: list[Request]) -> None:
        batch = flight.batch
        chosen = self.executor.wait(batch)
        device_s = chosen.device_s if isinstance(chosen, Chosen) else 0.0
        if batch.features is not None or batch.preempted:
            self.measured.device_s.append(device_s)
            if self.log is not None:
                self.log.rows[batch]["measured_s"] = device_s
            if self.watch is not None and batch.features is not None:
                self.watch(batch, flight.start_s, flight.end_s)
        super().land(flight, aborted)

    def end(self, request: Request) -> None:
        super().end(request)
        self.executor.end(request)


def device_for(executor: Executor, clock: Clock | None, watch: Watch | None = None) -> Callable[..., EngineDevice]:
    """For `Simulation(device=...)`."""

    def make(*about: Any) -> EngineDevice:
        return EngineDevice(*about, executor=executor, clock=clock, watch=watch)

    return make
