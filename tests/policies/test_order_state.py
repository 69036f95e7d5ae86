"""What orders keep of requests: nothing, when these have ended, whatever became of them."""

from typing import Any

import numpy as np
import pytest

from policies.hrrn import Hrrn
from policies.ltr import Ltr
from policies.ps import Ps
from traces.trace import Trace
from twin.core.limits import Limits, Rules
from twin.latency.linear import LinearLatency
from twin.policy import ADMIT, NEVER, Policy
from twin.predictors.oracle import Oracle
from twin.sim.simulation import Setup, simulate

MAKE: dict[str, Any] = {
    "hrrn": Hrrn,
    "ltr": lambda: Ltr(starvation_threshold=5, period=3),
    "ps": lambda: Ps(quantum_tokens=2),
}


def run(policy: Policy, asynchronous: bool) -> Any:
    """600 requests, at times many at once, for 4 seats and too few blocks; one in five is given up."""
    rows = np.arange(600)
    arrival_s = rows // 20 * 1.7
    trace = Trace(
        "busy", arrival_s, 1 + rows * 7 % 11, 1 + rows * 5 % 13, abort_s=np.where(rows % 5 == 0, arrival_s + 0.9, np.nan)
    )
    setup = Setup(
        Limits(40, 1, max_num_seqs=4),
        policy,
        LinearLatency(base_s=0.1),
        Rules(async_scheduling=asynchronous),
        predictor=Oracle(),
    )
    return simulate(setup, trace)


def kept(policy: Policy) -> int:
    tournament = vars(vars(policy).get("line", policy))
    return sum(len(value) for value in {**vars(policy), **tournament}.values() if isinstance(value, dict))


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("name", MAKE)
def test_nothing_is_kept_of_those_that_have_ended_or_were_given_up(name, asynchronous):
    policy = MAKE[name]()
    outcome = run(policy, asynchronous)
    assert outcome.requests["status"].count("aborted") > 50 and outcome.requests["status"].count("finished") > 400
    assert kept(policy) == 0


@pytest.mark.parametrize("name", MAKE)
def test_little_is_kept_of_those_that_were_rejected_at_the_door(name):
    policy = MAKE[name]()
    policy.admit = lambda request, view: NEVER if request.prompt_tokens > 3 else ADMIT
    outcome = run(policy, asynchronous=False)
    assert outcome.requests["status"].count("rejected") > 300
    assert kept(policy) <= 64 + 2 * 20  # 20 are alive at most
