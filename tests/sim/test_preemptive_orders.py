"""Preemptive orders under fast-forward."""

import numpy as np

from traces.trace import Trace
from twin.core import Limits
from twin.latency.linear import LinearLatency
from twin.policy import Policy
from twin.sim import Setup, simulate


class LeastAttained(Policy):
    """Who runs comes to stand behind who waits: not steady, and it does not say so."""

    preempts = True

    def order(self, request, view):
        return request.generated


def test_a_preemptive_order_is_not_taken_for_steady_unless_it_says_so() -> None:
    """One seat; B waits with 0 tokens and takes it when A has 1, whichever way the run goes."""
    trace = Trace("two", np.array([0.0, 0.5]), np.array([4, 4]), np.array([5, 2]))
    setup = Setup(Limits(99, max_num_seqs=1), LeastAttained(), LinearLatency(base_s=1.0))
    stepped, forward = (simulate(setup, trace, step_by_step=each) for each in (True, False))
    assert stepped.requests["first_scheduled_s"].tolist() == forward.requests["first_scheduled_s"].tolist() == [0.0, 1.0]
