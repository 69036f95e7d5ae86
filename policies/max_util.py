"""Admission: whatever fits now comes in."""

from twin.policy import ADMIT, Policy


class MaxUtil(Policy):
    """Whatever fits now comes in, whatever it may grow to: as many requests as the blocks hold at this moment.

    Source: MAX_UTILIZATION of NVIDIA TensorRT-LLM's capacity scheduler; it is also what vLLM V1 does, so `fcfs` with this
    part decides as `fcfs` without it: a name for the default, to stand beside `no_evict` in a comparison. When blocks run
    out somebody who runs is preempted ("paused"), by `policy.victim` and `policy.preemption_mode`. It decides on admission
    alone and needs to know nothing.
    """

    def admit(self, request, view):
        return ADMIT
