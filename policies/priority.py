"""Strict priorities: the vLLM V1 step with another order and another victim."""

from twin.policy import Policy


class Priority(Policy):
    """Lowest `priority` value first, then order of arrival: vLLM V1's `--scheduling-policy priority` (0.32).

    When blocks run out the request with the largest (priority, arrival) is preempted, on a tie the first of the running
    list. As in vLLM, it never preempts for a seat or to admit somebody; with `policy.preempt_for_seat=true` (our
    extension) a newcomer takes the seat and the blocks of a running request of a larger priority value, in that step.
    It needs the requests' `priority`.
    """

    def order(self, request, view):
        return request.priority

    def victim(self, running, view):
        return max(running, key=lambda request: (request.priority, request.arrival_s))
