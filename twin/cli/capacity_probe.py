"""The simulations behind a search for the capacity: the same run at another rate, with every seed."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from twin.capacity.objectives import ObjectiveError, Objectives, Sample, sample
from twin.capacity.probe import Probe
from twin.capacity.search import OutOfTime
from twin.cli.compose import Composed
from twin.cli.errors import UserError
from twin.cli.job import Job, build
from twin.cli.processes import processes
from twin.core.errors import PolicyError


class Task(NamedTuple):
    """One simulation: all that a process needs to know of it."""

    composed: Composed
    objectives: Objectives
    rate: float
    seed: int
    max_wall_s: float | None


def at_rate(composed: Composed, rate: float, seed: int) -> Composed:
    """The same run with another arrival rate and seed, of which no decisions are kept; its objectives are judged here."""
    values = deepcopy(composed.values)
    values["trace"]["rate"] = rate
    values["slo"] = dict.fromkeys(values["slo"])
    values["output"] = dict.fromkeys(values["output"], False)
    return replace(composed, values=values | {"seed": seed, "seeds": 1})


def carried_out(task: Task) -> Sample:
    """Simulates and measures. Raises UserError, PolicyError, OutOfTime; KeyboardInterrupt when it was interrupted."""
    from twin.results.record import Record

    job = build(at_rate(task.composed, task.rate, task.seed), "")
    try:
        record = Record(**vars(job.simulation.run(None, task.max_wall_s)))
    except PolicyError as error:  # without what it did until then, which nobody needs here
        raise PolicyError(str(error)) from None
    if not record.complete:
        if task.max_wall_s is not None and record.wall_s > task.max_wall_s:
            raise OutOfTime
        raise KeyboardInterrupt
    try:
        return sample(record, task.objectives, task.seed, *warmup(task.composed, len(job.trace)))
    except ObjectiveError as error:
        raise UserError(str(error)) from error


def warmup(composed: Composed, requests: int) -> tuple[float, int]:
    """Seconds, and a number of requests, that are not measured: as given, else the share capacity.warmup of them."""
    values = composed.values
    if composed.given("warmup_s") or composed.given("warmup_requests"):
        return values["warmup_s"], values["warmup_requests"]
    return 0.0, int(values["capacity"]["warmup"] * requests)


@dataclass
class Prober:
    """Measures rates, for one setting after another; with several jobs the seeds of a rate run side by side."""

    objectives: Objectives
    jobs: int = 1
    deadline_s: float | None = None  # of time.monotonic(): what is not done by then is not begun
    simulated: int = 0  # requests
    alike: bool = False  # the seeds do not differ: one of them says all
    _pool: ProcessPoolExecutor | None = field(default=None, repr=False)

    def probe(self, composed: Composed, rate: float) -> Probe:
        """All seeds at this rate, in their order whoever is ready first; the first alone once they were seen to be alike."""
        values = composed.values
        seeds = range(values["seed"], values["seed"] + (1 if self.alike else values["seeds"]))
        tasks = [Task(composed, self.objectives, rate, seed, self._left_s()) for seed in seeds]
        samples = tuple(self._all(tasks))
        self.simulated += sum(each.counts["requests"] for each in samples)
        probe = Probe(rate, samples, values["capacity"]["confidence"], values["capacity"]["steady"])
        if not probe.alike:
            return probe
        self.alike = True
        return Probe(rate, samples[:1], probe.confidence, probe.steady)

    def _left_s(self) -> float | None:
        if self.deadline_s is None:
            return None
        left_s = self.deadline_s - time.monotonic()
        if left_s <= 0:
            raise OutOfTime
        return left_s

    def _all(self, tasks: list[Task]) -> Iterator[Sample]:
        if self._pool is None:
            yield from map(carried_out, tasks)
            return
        futures: list[Future[Sample]] = [self._pool.submit(carried_out, task) for task in tasks]
        yield from (future.result() for future in futures)

    @contextmanager
    def ready(self) -> Iterator[None]:
        """While it lasts there are the processes; at its end, however it comes, none is left."""
        if self.jobs == 1:
            yield
            return
        try:
            with processes(self.jobs) as self._pool:
                yield
        finally:
            self._pool = None


def own_rate(job: Job) -> float:
    """Requests/s of the trace as it is; 1 where all of them come at once."""
    arrival_s: Any = job.trace.arrival_s
    span_s = float(arrival_s.max() - arrival_s.min()) if len(arrival_s) > 1 else 0.0
    return (len(arrival_s) - 1) / span_s if span_s > 0 else 1.0
