"""A run of the simulator: a trace, one replica, and what they leave."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import simpy

from twin.core.errors import DeviceError, PolicyError
from twin.core.limits import Limits, Rules
from twin.core.request import REJECTED, Request
from twin.core.scheduler import Scheduler
from twin.latency.model import LatencyError, LatencyModel
from twin.policy import Policy
from twin.policy_parts import members_of
from twin.predictor import Predictor
from twin.sim.arrivals import Arrivals, RequestFactory, Workload
from twin.sim.costs import cheaper_mode
from twin.sim.coverage import steps_outside
from twin.sim.decisions import DecisionLog
from twin.sim.device import VirtualDevice
from twin.sim.predictions import Predictions, PredictorError, telling
from twin.sim.recorder import RequestTable, request_columns
from twin.sim.replica import Halt, Replica, TimeLimit
from twin.sim.swap_link import SwapCost, SwapLink

CHOOSE_A_PREDICTOR = "choose a predictor, predictor=oracle say (or noisy, bucket, history, constant, one of your own)"
SELDOM = (100_000, 20, 100)  # for the collector of cycles: a run makes few, and to look for them costs a tenth of it
MOST_OF_A_MESSAGE = 300  # characters of a policy's own error


@dataclass
class Setup:
    """The system that serves a trace."""

    limits: Limits
    policy: Policy
    latency: LatencyModel
    rules: Rules = field(default_factory=Rules)
    swap: SwapCost = field(default_factory=SwapCost)
    predictor: Predictor | None = None
    closed_sessions: bool = False  # turns of a session follow the answer before them, not the trace's times


@dataclass
class Outcome:
    """What a run leaves, column by column; its fields are those of `twin.results.record.Record`."""

    requests: dict[str, Any]
    steps: dict[str, np.ndarray]
    itl_s: np.ndarray
    itl_count: np.ndarray
    itl_at_s: np.ndarray
    block_steps: np.ndarray
    token_steps: np.ndarray
    peak_blocks: np.ndarray
    num_blocks: int
    block_size: int
    complete: bool
    wall_s: float
    end_s: float
    counters: dict[str, int]
    notes: list[str]


class Simulation:
    """One replica and its arrivals, ready to run. `simulate` is the usual way in."""

    def __init__(
        self,
        setup: Setup,
        trace: Workload,
        step_by_step: bool = False,
        decisions: Callable[[dict[str, Any]], None] | None = None,
        literal: bool = False,
        keep: bool = False,
        device: Callable[..., VirtualDevice] = VirtualDevice,
        prepare: Callable[[Request], None] | None = None,
    ) -> None:
        """`literal`: by the definition alone, for tests. `keep`: the log of decisions keeps every sequence, for scenarios.
        `device`: what computes the steps; an engine's needs `step_by_step`. `prepare` is given each request that arrives,
        before anybody else sees it.

        Raises ValueError where policy, rules and predictor do not go together.
        """
        policy, limits = setup.policy, setup.limits
        name = type(policy).__name__
        predictor = setup.predictor if setup.predictor is not None and setup.predictor.predicts else None
        needed_by = next((who for who, member in members_of(policy) if member.needs_prediction), None)
        if needed_by is not None and predictor is None:
            raise ValueError(f"{needed_by} needs predicted output lengths: {CHOOSE_A_PREDICTOR}")
        if setup.rules.preempt_for_seat and policy.order is None:
            raise ValueError(f"preempt_for_seat needs a policy with an order, and {name} has none")
        self.setup, self.trace, self.prepare = setup, trace, prepare
        self.env = simpy.Environment()
        self.scheduler = Scheduler(
            limits, policy, setup.rules, literal, name_all=decisions is not None or device is not VirtualDevice
        )
        self.scheduler.state.cheaper_mode = cheaper_mode(setup.latency.expected(), setup.swap)
        self.requests = RequestTable(len(trace))
        predictions = None
        if predictor is not None:
            predictions = Predictions(predictor, trace, limits.max_model_len, self.requests, needed_by)
        factory = RequestFactory(trace, limits.block_size, limits.enable_prefix_caching)
        self.arrivals = Arrivals(self.env, trace, factory, self._deliver, setup.closed_sessions)
        after = telling(predictions, self.arrivals.after)
        self.device = device(self.scheduler, setup.latency, SwapLink(setup.swap), self.requests, after)
        forward = not step_by_step and decisions is None
        self.replica = Replica(self.env, self.scheduler, self.device, self.arrivals, forward)
        self.replica.predict = None if predictions is None else predictions.give
        self.arrivals.on_abort = self.replica.abort
        self.replica.aborts_come = trace.abort_s is not None
        if decisions is not None:
            self.device.log = DecisionLog(self.scheduler, decisions, keep)

    def _deliver(self, request: Request) -> None:
        if self.prepare is not None:
            self.prepare(request)
        self.replica.arrive(request)

    def run(self, progress: Callable[[int, float], None] | None = None, max_wall_s: float | None = None) -> Outcome:
        """To the end, or until it is interrupted or out of time: then the outcome is not complete.

        Raises PolicyError, with the outcome so far as `record`, when the policy raises, breaks a rule or stalls.
        """
        started = time.perf_counter()
        complete = False
        notes: list[str] = []

        def tick() -> None:
            if progress is not None:
                progress(self.device.ended, self.device.now_s)
            if max_wall_s is not None and time.perf_counter() - started > max_wall_s:
                raise TimeLimit

        self.replica.on_tick = tick
        failure: PolicyError | None = None
        thresholds = gc.get_threshold()
        gc.set_threshold(*SELDOM)
        try:
            self.env.run()
            complete = True
            assert not self.arrivals.to_come and not self.scheduler.busy and not self.scheduler.state.paused
            self.scheduler.state.pool.check([])
        except KeyboardInterrupt:
            notes.append("interrupted: these are the results so far")
        except TimeLimit:
            notes.append(f"stopped after simulate.max_wall_s={max_wall_s:g} seconds: these are the results so far")
        except Halt:
            failure = self._failure()
        finally:
            gc.set_threshold(*thresholds)
        wall_s = time.perf_counter() - started
        state = self.scheduler.state
        for request in (*state.running, *state.waiting, *state.swapped, *state.paused):
            self.requests.write(request)
        try:
            outcome = self._outcome(complete, wall_s, notes)
        except KeyboardInterrupt:  # nothing is lost by it: the run has ended, what it left is gathered once more
            outcome = self._outcome(complete, wall_s, notes)
        if failure is not None:
            outcome.notes.append(str(failure))
            failure.record = outcome
            raise failure
        return outcome

    def _failure(self) -> PolicyError:
        """The policy's error in one message; a defect of ours goes on as it is."""
        error = self.replica.error
        assert error is not None
        policy = type(self.setup.policy).__name__
        where = f"policy {policy}, plan {self.scheduler.state.plans} {self.replica.describe()}"
        if isinstance(error, (LatencyError, PredictorError, DeviceError)):
            failure = PolicyError(f"{error} ({self.replica.describe()})")
        elif isinstance(error, PolicyError):
            failure = type(error)(f"{where}: {error}")
        elif (place := _place_in(self.setup.policy, error.__traceback__)) is not None:
            failure = PolicyError(f"{where}: {place} raised {type(error).__name__}{_message_of(error)}")
        else:
            raise error
        failure.__cause__ = error
        return failure

    def _rejections(self) -> list[str]:
        """How many were rejected, and why the first of them."""
        table = self.requests
        if REJECTED not in table.status:
            return []
        ids = self.trace.ids()
        rejected = [row for row, status in enumerate(table.status) if status == REJECTED]
        first = rejected[0]
        return [f"{len(rejected):,} of {len(ids):,} requests were rejected, first {ids[first]}: {table.reason[first]}"]

    def _outcome(self, complete: bool, wall_s: float, notes: list[str]) -> Outcome:
        device, state = self.device, self.scheduler.state
        steps, tokens = device.steps.columns(), device.tokens.columns()
        block_steps, token_steps, peak_blocks = (steps.pop(name) for name in ("block_steps", "token_steps", "peak_blocks"))
        requests = request_columns(self.requests, self.trace)
        preemptions = int(requests["preemptions"].sum())
        counters = {
            "steps": device.steps.steps,
            "preemptions": preemptions,
            "recompute_preemptions": preemptions - state.swaps - state.keeps,
            "swap_preemptions": state.swaps,
            "keep_preemptions": state.keeps,
            "recomputed_tokens": int(requests["recomputed_tokens"].sum()),
            "swap_fallbacks": state.swap_fallbacks,
            "swaps_given_up": state.swaps_given_up,
            "swapped_blocks": device.link.blocks_moved,
            "prefix_cache_queries": state.cache_queries,
            "prefix_cache_hits": state.cache_hits,
            "recompute_hit_tokens": state.recompute_hits,
            "max_waiting": self.replica.max_waiting,
        }
        return Outcome(
            requests, steps, tokens["itl_s"], tokens["itl_count"], tokens["itl_at_s"], block_steps, token_steps,
            peak_blocks, num_blocks=state.pool.num_blocks, block_size=state.pool.block_size, complete=complete,
            wall_s=wall_s, end_s=device.now_s, counters=counters,
            notes=notes + self._rejections() + steps_outside(self.setup.latency, steps),
        )  # fmt: skip


def simulate(
    setup: Setup,
    trace: Workload,
    *,
    step_by_step: bool = False,
    decisions: Callable[[dict[str, Any]], None] | None = None,
    progress: Callable[[int, float], None] | None = None,
    max_wall_s: float | None = None,
) -> Outcome:
    """Serve the trace. Times are virtual seconds; the same arguments give the same outcome, to the last bit.

    `step_by_step` turns fast-forward off (the outcome is the same); `decisions` gets each step in the scenario format
    (and turns it off too); `progress` is told now and then how many requests have ended, and the virtual time.
    """
    return Simulation(setup, trace, step_by_step, decisions).run(progress, max_wall_s)


def _message_of(error: BaseException) -> str:
    """What it says, in one line of bounded length."""
    try:
        message = " ".join(str(error).split())
    except Exception as problem:  # somebody else's __str__
        message = f"(its message cannot be shown: {type(problem).__name__})"
    return f": {message[:MOST_OF_A_MESSAGE]}" if message else ""


def _place_in(policy: Policy, traceback: TracebackType | None) -> str | None:
    """file:line, the last in the policy's own code, and in that of classes it derives from, that the error passed."""
    owners = [owner for _, member in members_of(policy) for owner in type(member).__mro__ if owner not in (Policy, object)]
    codes = [getattr(member, "__code__", None) for owner in owners for member in vars(owner).values()]
    files = {code.co_filename for code in codes if code is not None}
    place = None
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if filename in files:
            place = f"{Path(filename).name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
