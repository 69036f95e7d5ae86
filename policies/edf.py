"""Earliest deadline first."""

from math import inf

from twin.policy import Policy


class Edf(Policy):
    """Earliest deadline first; requests without a deadline come last, in order of arrival.

    Source: Jackson (1955); Liu and Layland (JACM 1973), who show for one preemptive processor that it meets all deadlines
    if any order does. It sheds no load: under overload it spends itself on requests that are late already.

    It decides the order of admission, and whose blocks are taken when they run out: of the one with the latest deadline.
    It needs `deadline_s`.

    Parameters:
        preemptive: a newcomer displaces the running request with the latest deadline, if that is later than its own and no
            seat or blocks are free.
    """

    steady = True  # a deadline does not move

    def __init__(self, preemptive: bool = False) -> None:
        self.preempts = preemptive

    def order(self, request, view):
        return inf if request.deadline_s is None else request.deadline_s

    def victim(self, running, view):
        return max(running, key=lambda request: (self.order(request, view), request.arrival_s))
