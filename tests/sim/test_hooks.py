"""Policies with queues of their own, changing keys, kept blocks and moves ahead: every way through a run is the same."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from tests.sim.cases import Case, cases, difference
from tests.sim.hooks import HOOKS, LeastAttained, MovesAhead
from twin.policy import Policy
from twin.results.record import Record
from twin.sim.simulation import Simulation


@pytest.mark.parametrize("policy", HOOKS)
@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_every_way_through_a_run_has_the_same_outcome(policy: type[Policy], case: Case) -> None:
    parts = {} if policy.preempts else case.parts  # a victim rule that contradicts a preemptive order can thrash for ever
    case = replace(case, policy=policy, rules=replace(case.rules, preempt_for_seat=False), parts=parts)
    literal = Simulation(case.setup(), case.trace, step_by_step=True, literal=True).run()
    usual = Simulation(case.setup(), case.trace, step_by_step=True).run()
    simulation = Simulation(case.setup(), case.trace)
    forward = simulation.run()
    assert (difference(literal, usual), difference(usual, forward)) == (None, None)
    Record(**vars(forward)).check()
    assert "unfinished" not in forward.requests["status"]
    state = simulation.scheduler.state
    assert state.pool.num_free == case.limits.num_blocks and not state.kept
    assert len(state.pool.free_host) == case.limits.num_host_blocks


def test_the_random_cases_do_keep_and_move() -> None:
    """Else the test above would show nothing."""
    seen = {"keep_preemptions": 0, "swapped_blocks": 0, "swaps_given_up": 0}

    @settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=cases())
    def look(case: Case) -> None:
        for policy in (LeastAttained, MovesAhead):
            rules = replace(case.rules, preempt_for_seat=False)
            counters = Simulation(replace(case, policy=policy, rules=rules).setup(), case.trace).run().counters
            for name in seen:
                seen[name] += counters[name]

    look()
    assert all(seen.values()), seen
