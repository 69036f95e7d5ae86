"""Stretches of steps at once give what single steps give, and what the definition gives, where keys change as requests run,
with small parameters.

(With their defaults all shipped policies are held to this in tests/sim/test_shipped_policies.py.)
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from policies.edf import Edf
from policies.hrrn import Hrrn
from policies.las import Las
from policies.ltr import Ltr
from policies.mlfq import Mlfq
from policies.ps import Ps
from policies.slack import Slack
from policies.trail import Trail
from tests.sim.cases import Case, cases, difference
from tests.sim.test_shipped_policies import adapted
from twin.policy import Policy
from twin.sim.simulation import Simulation

MADE: dict[str, Callable[[], Policy]] = {
    "las of 3 tokens": lambda: Las(quantum_tokens=3),
    "las of 5 with prompts": lambda: Las(quantum_tokens=5, count_prompt=True),
    "ps of 2 tokens": lambda: Ps(quantum_tokens=2),
    "ltr with a guard of 4 steps": lambda: Ltr(starvation_threshold=4, period=2),
    "mlfq of 2 steps": lambda: Mlfq(q0_s=0.02, levels=4, promote_after_s=0.2),
    "slack, preemptive": lambda: Slack(preemptive=True),
    "edf, preemptive": lambda: Edf(preemptive=True),
    "trail of a third": lambda: Trail(c=0.33),
    "hrrn by total": lambda: Hrrn(size="total"),
}


@pytest.mark.parametrize("name", MADE)
@settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_stretches_give_what_steps_give(name: str, case: Case) -> None:
    make = MADE[name]
    case = replace(adapted(case, type(make()).__name__.lower()), trace=with_deadlines(case.trace))
    forward, stepped, literal = (
        Simulation(replace(case.setup(), policy=make()), case.trace, **way).run()
        for way in ({}, {"step_by_step": True}, {"step_by_step": True, "literal": True})
    )
    assert (difference(forward, stepped), difference(stepped, literal)) == (None, None)
    assert "unfinished" not in forward.requests["status"]


def with_deadlines(trace):
    """Of four requests in five, within three seconds of their arrival."""
    rng = Random(int(trace.prompt_tokens.sum()))
    spare_s = [rng.choice([rng.random() * 3] * 4 + [float("nan")]) for _ in range(len(trace))]
    return replace(trace, deadline_s=np.array(trace.arrival_s) + spare_s)
