"""Learning to rank: the order of predicted lengths, and a guard against starvation."""

from collections import OrderedDict

from twin.policy import Policy, RequestView

EVER = 1 << 60  # steps


class Ltr(Policy):
    """Shortest predicted output first, preemptive, by rank alone; who waits too many steps goes ahead of all for a while.

    Source: "Efficient LLM Scheduling by Learning to Rank" (Fu et al., NeurIPS 2024) and its code (vllm-ltr, schedule type
    `opt`). The prediction is used as a score: only who has the smaller one matters, not by how much, and it does not
    change as a request runs. Each step takes the first in that order. The guard:

    - a request that has not been scheduled for `starvation_threshold` steps is promoted: it goes ahead of all that are not
      (among those promoted the score decides);
    - it stays so for `period` steps of its own, whether preempted in between or not, and then goes back to its place by
      score. If it is left unscheduled for `starvation_threshold` steps again, the period begins anew.

    Steps are counted as they end. A running request counts as scheduled, also where the token budget passes it over. Of its
    period those steps are counted that give it a token, where the code counts the chunks of its prompt too: a period that
    ends before the prompt is computed would be lost work, and all could go on so for ever.

    It decides the order of admission, whom one that waits displaces, and whose blocks are taken when they run out: of the
    last in this order. It needs `predicted_output`, of which the rank must be right and nothing else.

    Parameters:
        starvation_threshold: steps without being scheduled after which a request is promoted; 0: no guard.
        period: steps of its own, in tokens generated, that it then stays ahead.
    """

    needs_prediction = True
    preempts = True

    def __init__(self, starvation_threshold: int = 256, period: int = 32) -> None:
        if starvation_threshold < 0:
            raise ValueError(f"starvation_threshold must be 0 (no guard) or more steps, not {starvation_threshold}")
        if period < 1:
            raise ValueError(f"period must be 1 or more steps, not {period}")
        self.threshold, self.period = starvation_threshold, period
        self.steps = 0  # that have ended
        self.idle_since: OrderedDict[RequestView, int] = OrderedDict()  # who is not scheduled, the longest first
        self.runs_left: dict[RequestView, int] = {}  # promoted, and not running
        self.ahead_until: dict[RequestView, int] = {}  # promoted, and running: until it has generated so many tokens

    def order(self, request, view):
        promoted = request in self.runs_left or self.ahead_until.get(request, 0) > request.generated
        return -1 if promoted else 0, request.predicted_output

    def victim(self, running, view):
        return max(running, key=lambda request: (self.order(request, view), request.arrival_s))

    def on_wait(self, request, view):
        if self.threshold:
            self.idle_since.setdefault(request, self.steps)

    def on_admit(self, request, view):
        self.idle_since.pop(request, None)
        if request in self.runs_left:
            self.ahead_until[request] = request.generated + self.runs_left.pop(request)

    def on_preempt(self, request, mode, view):
        if self.threshold:
            self.idle_since.setdefault(request, self.steps)
        runs_left = self.ahead_until.pop(request, 0) - request.generated
        if runs_left > 0:
            self.runs_left[request] = runs_left

    def on_resume(self, request, view):
        """A pause of its own is no waiting."""
        if self.threshold:
            self.idle_since.pop(request, None)
            self.idle_since[request] = self.steps

    def on_finish(self, request, view):
        for kept in (self.idle_since, self.runs_left, self.ahead_until):
            kept.pop(request, None)

    def on_step(self, view, batch, k):
        self.steps += k

    def on_plan(self, view):
        """Promote who is due. All wait equally long for it, so they stand in order of when they are."""
        while self.idle_since:
            request, since = next(iter(self.idle_since.items()))
            if self.steps - since < self.threshold:
                break
            self.idle_since.popitem(last=False)
            if request.state == "rejected":
                self.runs_left.pop(request, None)
            elif request.state != "paused":
                self.runs_left[request] = self.period
                if request.state == "waiting":
                    view.reorder(request)

    def steady_steps(self, view):
        """Until the next is promoted."""
        return next(iter(self.idle_since.values())) + self.threshold - self.steps if self.idle_since else EVER

    def key_steps(self, request, key, view):
        """Until one that was promoted goes back to its place by score."""
        runs_left = self.ahead_until.get(request, 0) - request.generated
        return runs_left if runs_left > 0 else EVER
