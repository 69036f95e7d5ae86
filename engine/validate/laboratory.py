"""Both halves ready to serve the same requests, as often as one likes: one model, one cache, fresh policies."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from engine.cli.backend import EngineBackend
from engine.cli.words import users_mistakes
from engine.device import Watch
from engine.lockstep import Difference, Row, first_difference
from engine.lockstep import replay as replayed
from engine.profile.contamination import LoadReader, load_reader
from engine.scaling import SMALLEST, probe, with_lengths
from engine.validate.quiet import uncollected
from engine.validate.steps import Step, StepLog
from traces.trace import Trace
from traces.transforms.common import moved
from twin.cli.compose import Composed
from twin.cli.errors import naming
from twin.cli.job import Job, Relay, build
from twin.core.limits import Limits
from twin.latency.model import LatencyModel
from twin.results.record import Record
from twin.results.summary import Summary, summarize
from twin.sim import Setup, Simulation
from twin.sim.costs import cheaper_mode

Arrivals = Callable[[Trace], Trace]


@dataclass
class Played:
    """One run, of either half. `foreign`: what others did on the machine meanwhile, in words; None: nothing to speak of."""

    record: Record
    summary: Summary
    steps: list[Step] = field(default_factory=list)  # of an engine
    foreign: str | None = None


@dataclass(frozen=True)
class Case:
    """A policy on a trace. `others`: requests of another seed, for the latency model; of a file's trace the same ones."""

    policy: str
    trace: str
    job: Job
    others: Trace

    def __str__(self) -> str:
        return f"{self.policy} on {self.trace}"


class ValidationBackend(EngineBackend):
    """The engine's, with all requests kept: lengths are scaled to the machine, arrivals are the validation's affair."""

    def __init__(self) -> None:
        super().__init__(rate_given=True)
        self.steps = StepLog()
        self.share = 1.0  # by which the lengths of the last trace were multiplied

    def adapt(self, trace: Trace, config: dict[str, Any], limits: Limits) -> tuple[Trace, list[str]]:
        assert self.loaded is not None
        runner = self.make_room(limits)
        scale, budget_s = config["engine"]["scale"], config["engine"]["budget_s"]
        self.share = 1.0
        if scale == "none" or (scale == "auto" and self.loaded.device.type != "cpu"):
            return trace, []
        if scale != "auto":
            self.share = scale
            return with_lengths(trace, scale), [f"engine.scale={scale:g}: lengths x that"]
        self.speed = self.speed or probe(runner, limits)
        share = 1.0
        while share > SMALLEST and float(self.speed.work_s(*_lengths(trace, share)).sum()) > budget_s:
            share /= 2
        self.share = share
        if share == 1:
            return trace, []
        note = f"scaled to this machine: lengths x {share:g}; for several validations of one trace: engine.scale={share:g}"
        return with_lengths(trace, share), [note]

    def watch(self, setup: Setup) -> Watch:
        self.steps = StepLog()
        return self.steps


class Laboratory:
    """Opens cases, and plays them on either half."""

    def __init__(self) -> None:
        self.backend = ValidationBackend()
        self.reader: LoadReader | None = None

    def open(self, composed: Composed, command: str) -> Case:
        """Builds everything once. Raises `UserError` for what is wrong, before anything is measured."""
        own, another = (replace(composed, values=deepcopy(composed.values)) for _ in range(2))
        with users_mistakes():
            job = build(own, command, self.backend)
            another.values["seed"] ^= 1
            another.values["engine"]["scale"] = self.backend.share
            others = build(another, command, self.backend).trace
        with naming("trace"):
            at_rate(1.0)(job.trace)
            at_rate(1.0)(others)
        if self.reader is None:
            assert self.backend.loaded is not None
            self.reader = load_reader(self.backend.loaded.device)
        return Case(job.config["policy"]["name"], composed.choices.get("trace", job.trace.name), job, others)

    def on_engine(
        self,
        case: Case,
        arrivals: Arrivals,
        skip_idle: bool = False,
        rows: list[Row] | None = None,
        others: bool = False,
    ) -> Played:
        """In real time; `skip_idle` does not wait while nothing runs. `rows` takes the decisions, which costs time.

        `others`: not the requests that are judged, but those that the latency model is fitted to. Raises KeyboardInterrupt
        when it is interrupted, PolicyError as a simulation does.
        """
        assert self.reader is not None
        config = dict(case.job.config)
        config["engine"] = config["engine"] | {"skip_idle": skip_idle or config["engine"]["skip_idle"]}
        setup = case.job.fresh_setup()
        self.backend.make_room(setup.limits)
        decisions = None
        if rows is not None:
            decisions = Relay()
            decisions.receiver = rows.append
        trace = arrivals(case.others if others else case.job.trace)
        simulation = self.backend.simulation(setup, trace, config, decisions)
        self.reader.read()
        try:
            with uncollected():
                record = Record(**vars(simulation.run()))
        finally:
            assert self.backend.executor is not None
            self.backend.executor.close()
        foreign = self.reader.read()
        if not record.complete:
            raise KeyboardInterrupt
        return Played(record, _summary(case, record), self.backend.steps.steps, foreign)

    def in_simulator(self, case: Case, arrivals: Arrivals, latency: LatencyModel) -> Played:
        """By the latency model alone: no clock is read. What preemption_mode=auto asks is asked of the engine's own."""
        setup = case.job.fresh_setup()
        simulation = Simulation(replace(setup, latency=latency), arrivals(case.job.trace))
        simulation.scheduler.state.cheaper_mode = cheaper_mode(setup.latency, setup.swap)
        record = Record(**vars(simulation.run()))
        if not record.complete:
            raise KeyboardInterrupt
        return Played(record, _summary(case, record))

    def lockstep(self, case: Case, arrivals: Arrivals) -> tuple[Difference | None, int]:
        """The engine's decisions against those of the simulator given its step times; and how many steps they were."""
        rows: list[Row] = []
        self.on_engine(case, arrivals, skip_idle=True, rows=rows)
        again = replayed(case.job.fresh_setup(), arrivals(case.job.trace), rows)
        return first_difference(rows, again), len(rows)


def at_rate(requests_per_s: float) -> Arrivals:
    """The trace's own arrivals, faster or slower."""
    return lambda trace: trace.rescaled(requests_per_s)


def all_at_once(trace: Trace) -> Trace:
    """A burst."""
    return moved(trace, np.full(len(trace), float(trace.arrival_s[0])))


def _lengths(trace: Trace, share: float) -> tuple[np.ndarray, np.ndarray]:
    scaled = with_lengths(trace, share)
    return scaled.prompt_tokens, scaled.output_tokens


def _summary(case: Case, record: Record) -> Summary:
    config = case.job.config
    return summarize(record, warmup_s=config["warmup_s"], warmup_requests=config["warmup_requests"])
