"""Least slack first."""

from math import floor, inf

from twin.policy import Policy

EVER = 1 << 60  # steps


class Slack(Policy):
    """Least slack first: who can least afford to wait. Requests without a deadline come last, in order of arrival.

    Source: Mok (PhD thesis, MIT 1983), least laxity first; the slack-based orders of SLO-aware LLM schedulers are of this
    kind. The slack of a request is what its deadline leaves when its work is done at once:

        slack = deadline - now - remaining,    remaining = max(0, predicted output - generated) * per_token_s

    `now` is the same for all and does not matter, so who waits keeps its key, deadline - remaining; the key of who runs
    grows by `per_token_s` with each token.

    It decides the order of admission, and whose blocks are taken when they run out: of the one with most slack. It needs
    `deadline_s` and `predicted_output`.

    Parameters:
        per_token_s: what one output token is taken to cost, in seconds (a mean TPOT).
        preemptive: a newcomer displaces the running request with most slack, if that is more than its own and no seat or
            blocks are free.
    """

    needs_prediction = True

    def __init__(self, per_token_s: float = 0.02, preemptive: bool = False) -> None:
        if not 1e-9 <= per_token_s <= 1e9:
            raise ValueError(f"per_token_s must be above 0 seconds, 1e-9 to 1e9, not {per_token_s}")
        self.per_token_s = per_token_s
        self.preempts = preemptive

    def order(self, request, view):
        if request.deadline_s is None:
            return inf
        return request.deadline_s - max(0, request.predicted_output - request.generated) * self.per_token_s

    def victim(self, running, view):
        return max(running, key=lambda request: (self.order(request, view), request.arrival_s))

    def steady_steps(self, view):
        """Until a running request's key has grown past that of one who waits; a step early, for the sake of rounding."""
        if not self.preempts:
            return EVER
        waiting = [self.order(request, view) for request in (view.head, *view.swapped) if request is not None]
        steps = EVER
        for request in view.running:
            key = self.order(request, view)
            ahead = min((other for other in waiting if key <= other < inf), default=inf)
            if ahead < inf:
                steps = min(steps, floor((ahead - key) / self.per_token_s))
        return steps
