"""First come, first served: the vLLM V1 step as it is."""

from twin.policy import Policy


class Fcfs(Policy):
    """First come, first served: vLLM V1's default policy (vLLM 0.32, `--scheduling-policy fcfs`).

    Requests are admitted in order of arrival, head of the queue only; when blocks run out the last admitted is
    preempted and put at the front of the queue. It needs to know nothing.
    """
