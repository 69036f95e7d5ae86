"""met-13: what must hold of every run, for every policy that is shipped, under random pressure."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import policies
from tests.sim.cases import Case, cases, difference
from twin.policies_registry import find
from twin.results.record import Record
from twin.sim.simulation import Outcome, Simulation

SHIPPED = sorted(path.stem for path in Path(policies.__file__).parent.glob("[!_]*.py"))


@pytest.mark.parametrize("name", SHIPPED)
@settings(max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_what_must_hold_of_any_run(name: str, case: Case) -> None:
    case = adapted(case, name)
    simulation = Simulation(case.setup(), case.trace)
    outcome = simulation.run()
    Record(**vars(outcome)).check()  # clock, order of stamps, blocks, everybody accounted for
    assert outcome.complete and "unfinished" not in outcome.requests["status"]
    assert simulation.scheduler.state.pool.num_free == case.limits.num_blocks
    again = Simulation(case.setup(), case.trace).run()
    assert difference(outcome, again) is None and as_bytes(outcome) == as_bytes(again)
    assert difference(outcome, Simulation(case.setup(), case.trace, step_by_step=True).run()) is None


def adapted(case: Case, name: str) -> Case:
    """The same system under another policy, and what does not go with that one changed."""
    policy = find(name).policy
    limits, trace = replace(case.limits, enable_chunked_prefill=True), case.trace
    rules = replace(case.rules, allocator=policy.allocator, preempt_for_seat=False)
    if policy.allocator == "contiguous":
        limits = replace(limits, enable_prefix_caching=False, max_model_len=min(limits.max_model_len, 200))
        trace = replace(trace, n=None, prefix=None)
    return replace(case, policy=policy, limits=limits, rules=rules, trace=trace, parts={})


def as_bytes(outcome: Outcome) -> list[bytes]:
    return [column.tobytes() for column in (*outcome.steps.values(), outcome.itl_s, outcome.itl_at_s)]
