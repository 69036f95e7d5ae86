"""Shortest remaining first with limited preemption: who is nearly done is left alone."""

from math import inf

from twin.policy import Policy


class Trail(Policy):
    """Shortest predicted remaining output first, preemptive, but only in the first part of a request's life.

    Source: TRAIL, "Don't Stop Me Now: Embedding Based Scheduling for LLMs" (Shahout et al., ICLR 2025). A request holds most
    memory, and has most to lose, when it is nearly done: once it has generated c times its predicted output, no newcomer
    displaces it any more. c = 1 is `srpt` with respect to predictions that are right, c = 0 never displaces anybody. (The
    paper's predictor looks again after each token; here the prediction is the one that was made at arrival.)

    It decides the order of admission, whom a newcomer displaces, and whose blocks are taken when they run out: of the one
    with most to go, of one that is left alone only if there are no others. It needs `predicted_output`.

    Parameters:
        c: share of the predicted output, from 0 to 1, after which a running request is left alone.
    """

    needs_prediction = True
    preempts = True
    steady = True  # who runs has less to go with each token, and then nothing: keys only fall

    def __init__(self, c: float = 0.8) -> None:
        if not 0 <= c <= 1:
            raise ValueError(f"c must be a share of the predicted output from 0 to 1, not {c}")
        self.c = c

    def order(self, request, view):
        predicted, generated = request.predicted_output, request.generated
        if generated >= self.c * predicted and request.state == "running":
            return -inf
        return max(0, predicted - generated)

    def victim(self, running, view):
        return max(running, key=lambda request: (self.order(request, view), request.arrival_s))
