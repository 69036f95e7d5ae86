"""Shortest remaining processing time, by predicted length."""

from twin.policy import Policy


class Srpt(Policy):
    """Shortest predicted remaining output first, preemptive: a newcomer with less to go displaces the one with most.

    Source: Schrage and Miller (1966), Schrage (1968): with true sizes no order has fewer requests in a single server, at any
    time. Here what a preempted request has computed may be lost (`policy.preemption_mode`), which the theorem does not know.

    It decides the order of admission, whom a newcomer displaces when no seat or blocks are free, and whose blocks are taken
    when they run out: in both cases of the one with most to go. It needs `predicted_output` (the true length with
    `predictor=oracle`). A request that has outlived its prediction has nothing left to go, as far as this policy knows: it
    is kept, first in order, until it ends.

    Who runs only comes closer to its end, so nobody comes to stand behind those who wait by running alone.
    """

    needs_prediction = True
    preempts = True
    steady = True

    def order(self, request, view):
        return max(0, request.predicted_output - request.generated)

    def victim(self, running, view):
        return max(running, key=lambda request: (self.order(request, view), request.arrival_s))
