"""The engine in a time of its own: each step lasts one second, so that arrivals and aborts fall where a test wants them.

Every slot is NaN before a run: whoever reads what nobody has written gets NaN, and fails. After a run nothing may be left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.attention.base import AttentionBackend
from engine.attention.torch_backend import TorchAttention
from engine.device import Clock, device_for
from engine.executor import Executor
from engine.model.transformer import Transformer
from engine.offline import Engine, Output
from engine.sampling.params import SamplingParams
from twin.core.limits import Limits, Rules
from twin.core.scheduler import Scheduler
from twin.policy import Policy
from twin.predictor import Predictor
from twin.sim.scenario import ScenarioTrace
from twin.sim.scenario_file import Scenario, ScenarioRequest
from twin.sim.simulation import Outcome, Setup, Simulation

BLOCK_SIZE = 4
SYNCHRONOUS, ASYNCHRONOUS = Rules(), Rules(async_scheduling=True)
BOTH = (SYNCHRONOUS, ASYNCHRONOUS)


class SteppedEngine(Engine):
    """`amend` may write more into the requests of a run (users, priorities, pauses); `prepare` sees its executor.

    The clock of `generate` is not read: time is the scenario's.
    """

    amend: Callable[[list[ScenarioRequest]], None] | None = None
    prepare: Callable[[Executor], None] | None = None

    def _run(self, scenario: Scenario, executor: Executor, predictor: Predictor | None, clock: Clock) -> Outcome:
        if self.amend is not None:
            self.amend(scenario.requests)
        if self.prepare is not None:
            self.prepare(executor)
        self.runner.cache.poison()
        setup = Setup(self.limits, self.policy, scenario.latency, self.rules, predictor=predictor)
        simulation = Simulation(
            setup, ScenarioTrace(scenario), step_by_step=True, device=device_for(executor, None), prepare=executor.prepare
        )
        try:
            outcome = simulation.run()
        finally:
            executor.close()
        assert outcome.complete
        assert_nothing_left(executor, simulation.scheduler)
        return outcome


def assert_nothing_left(executor: Executor, scheduler: Scheduler) -> None:
    """All have ended: no block, row, sequence or search is anybody's any more."""
    state, tables = scheduler.state, executor.inputs.tables
    assert state.pool.num_free == state.pool.num_blocks and state.table_blocks == 0
    assert len(state.pool.free_host) == scheduler.limits.num_host_blocks
    assert not (state.running or state.waiting or state.swapped or state.paused or state.kept)
    assert not (state.prefills or state.ending or state.in_flight or state.transfers)
    assert state.decoders.count == state.unforked_seats == state.parked_tokens == 0
    assert not executor.sequences._of, "sequences that nobody has"
    assert not tables._row and not tables._length and sorted(tables._free) == list(range(len(tables.array)))
    assert not (executor.in_flight or executor.chosen or executor.searches or executor.stops or executor.least)


def engine(
    model: Transformer, rules: Rules = SYNCHRONOUS, policy: Policy | None = None, attention: AttentionBackend | None = None,
    seed: int = 0, **limits: Any,
) -> SteppedEngine:  # fmt: skip
    """Blocks of 4 tokens, and of everything as much as anybody wants, unless `limits` say otherwise."""
    given = {"num_blocks": 600, "block_size": BLOCK_SIZE, "max_model_len": model.max_len} | limits
    return SteppedEngine(model, Limits(**given), policy, rules, attention or TorchAttention(), seed=seed)


def tokens_of(outputs: Sequence[Output]) -> list[list[int]]:
    """Of requests with one sample each, all of which have finished."""
    samples = [sample for output in outputs for sample in output.samples]
    assert len(samples) == len(outputs)
    wrong = [(row, sample.status, sample.reason) for row, sample in enumerate(samples) if sample.status != "finished"]
    assert not wrong, wrong
    return [sample.tokens for sample in samples]


def greedy(tokens: int, **parameters: Any) -> SamplingParams:
    return SamplingParams(max_tokens=tokens, **parameters)


def count(outcome: Outcome, what: str) -> int:
    return outcome.counters[what]
