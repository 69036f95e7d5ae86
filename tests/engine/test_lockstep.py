"""Every shipped policy decides in the simulator, given the engine's step times, as it did in the engine (case twin-01)."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.contents import TraceContents
from engine.device import Clock, device_for
from engine.executor import Executor
from engine.lockstep import Difference, Row, first_difference, replay
from engine.sampling.params import SamplingParams
from engine.tiny import TINY, tiny_runner
from traces.trace import Trace
from twin import policies_registry, predictors_registry
from twin.core import Limits, Rules
from twin.latency.linear import LinearLatency
from twin.policy_assembly import assemble
from twin.sim import Setup, Simulation, SwapCost

POLICIES = policies_registry.names(None)
PARTS = ("admission", "victim", "preemption_mode", "pause")


def workload(seed: int, requests: int = 14) -> Trace:
    """A burst, then a trickle; some pause, some are aborted, some come twice over (n=2)."""
    draw = np.random.default_rng(seed)
    arrival_s = np.sort(np.where(draw.random(requests) < 0.5, 0.0, draw.exponential(0.05, requests)))
    pauses = ["3:0.004" if draw.random() < 0.2 else "" for _ in range(requests)]
    n = np.array([1 if pause or draw.random() < 0.85 else 2 for pause in pauses])
    return Trace(
        "random", arrival_s, draw.integers(1, 60, requests), draw.integers(1, 24, requests), n=n, pauses=pauses,
        user=[f"u{draw.integers(3)}" for _ in range(requests)], priority=draw.integers(0, 3, requests),
        deadline_s=arrival_s + draw.exponential(0.2, requests), max_tokens=np.full(requests, 30),
        abort_s=np.where(draw.random(requests) < 0.1, arrival_s + 0.01, np.nan),
    )  # fmt: skip


def setup_for(name: str, asynchronous: bool, mode: str) -> Setup:
    found = policies_registry.find(name)
    required = {parameter.name: 2 for parameter in found.parameters if parameter.required}
    policy = assemble(name, required).policy
    predictor = None
    if policy.needs_prediction:
        predictor, _ = predictors_registry.find("oracle").build({})
    limits = Limits(
        22, block_size=8, num_host_blocks=16, max_num_seqs=6, max_num_batched_tokens=48, max_model_len=128,
        enable_prefix_caching=policy.allocator != "contiguous",
    )  # fmt: skip
    rules = Rules(
        mode,
        async_scheduling=asynchronous,
        allocator=policy.allocator or "paged",
        pause="swap" if mode == "swap" else "keep",
    )
    return Setup(limits, policy, LinearLatency(base_s=1.0), rules, predictor=predictor)


def recorded(setup: Setup, trace: Trace) -> tuple[list[Row], Any]:
    """The decisions of the engine in real time, idle times skipped."""
    runner = tiny_runner(setup.limits)
    contents = TraceContents(trace, setup.limits.block_size, TINY.vocab, SamplingParams(ignore_eos=True))
    executor = Executor(runner, contents, overlap=setup.rules.async_scheduling)
    rows: list[Row] = []
    device = device_for(executor, Clock(skip_idle=True))
    try:
        outcome = Simulation(setup, trace, True, rows.append, device=device, prepare=executor.prepare).run()
    finally:
        executor.close()
    return rows, outcome


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", POLICIES)
def test_the_simulator_decides_as_the_engine_did(name: str, asynchronous: bool) -> None:
    for seed, mode in enumerate(("recompute", "swap")):
        trace = workload(seed)
        rows, outcome = recorded(setup_for(name, asynchronous, mode), trace)
        assert not set(outcome.requests["reason"]) - {"length", "abort"} - _rejections(outcome)
        again = replay(setup_for(name, asynchronous, mode), trace, rows)
        assert first_difference(rows, again) is None, str(first_difference(rows, again))


def _rejections(outcome: Any) -> set[str]:
    statuses, reasons = outcome.requests["status"], outcome.requests["reason"]
    return {reason for status, reason in zip(statuses, reasons, strict=True) if status == "rejected"}


def test_a_difference_is_found_at_its_step_and_shown_with_both_states() -> None:
    setup = setup_for("fcfs", False, "recompute")
    rows, _ = recorded(setup, workload(3))
    assert first_difference(rows, rows) is None
    changed = [dict(row) for row in rows]
    changed[4]["free_blocks"] += 1
    found = first_difference(rows, changed)
    assert found == Difference(5, ("free_blocks",), rows[4], changed[4])
    assert str(found).splitlines() == [
        "step 5 differs in free_blocks",
        f"  engine: {{'free_blocks': {rows[4]['free_blocks']}}}",
        f"  simulator: {{'free_blocks': {rows[4]['free_blocks'] + 1}}}",
    ]
    assert first_difference(rows, rows[:-1]) == Difference(len(rows), (), rows[-1], None)
    swapped = [dict(row) for row in rows]
    crowded = next(place for place, row in enumerate(rows) if len(row["scheduled"]) > 1)
    swapped[crowded]["scheduled"] = dict(reversed(rows[crowded]["scheduled"].items()))
    assert first_difference(rows, swapped) == Difference(crowded + 1, ("scheduled",), rows[crowded], swapped[crowded])


def test_another_policy_is_told_apart() -> None:
    """Not a test that cannot fail: the recorded run of one policy, replayed under another, parts from it."""
    trace = workload(1)
    rows, _ = recorded(setup_for("fcfs", False, "recompute"), trace)
    other = replace(setup_for("fcfs", False, "recompute"), policy=assemble("prefill_first", {}).policy)
    assert first_difference(rows, replay(other, trace, rows)) is not None


def test_what_a_swap_costs_is_weighed_as_in_the_engine_and_not_counted_twice() -> None:
    """preemption_mode=auto asks the latency model, not the recorded durations; these have the engine's swaps in them."""
    setup = replace(setup_for("fcfs", False, "auto"), swap=SwapCost(bytes_per_block=1_000_000, bandwidth_gib_s=1.0))
    setup.latency = LinearLatency(base_s=1.0, per_prefill_token_s=0.0005)  # 8 tokens: 4 ms, a block both ways: 1.9 ms
    trace = workload(5, requests=30)
    rows, _ = recorded(setup, trace)
    modes = {mode for row in rows for mode in row["preempted"].values()}
    assert "swap" in modes
    again = replace(setup_for("fcfs", False, "auto"), swap=setup.swap, latency=setup.latency)
    assert first_difference(rows, replay(again, trace, rows)) is None
