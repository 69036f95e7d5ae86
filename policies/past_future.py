"""Admission: the peak of future memory, from what past outputs were like."""

from bisect import bisect_right, insort
from collections import deque
from hashlib import blake2b
from math import ceil, floor

from twin.policy import ADMIT, LATER, Policy, RequestView

NEVER_ASKED = -1
FOR_EVER = 1 << 60


class PastFuture(Policy):
    """The head comes in only if the most tokens that those who run, and it, will hold at one time stay below the pool.

    Source: the scheduler of LightLLM (Gong et al., "Past-Future Scheduler for LLM Serving under SLA Guarantees", ASPLOS
    2025). Who runs holds `has` tokens and has `left` to yield; each step adds one to everybody, and whoever has none left
    gives all back. So memory is largest at one of the ends. In order of `left`, longest first, when the i-th ends the first
    i are still there:

        peak = max over i of  left_i * i + sum of has_j, j <= i          admitted if peak < (1 - reserved) * pool

    With P prompt tokens and O outputs, of which g have come: has = P + g, left = O - g - 1 (the last one's KV is never
    written). Blocks that requests share are counted for each; what the last block of each wastes is what `reserved` is for.
    When nothing runs the head comes in. It decides on admission alone: `policy.admission=past_future`.

    O is the prediction where the run has a predictor. Else it is drawn from the outputs that finished last, those of them
    that were longer than g; who has outlived them all is taken to go on for a tenth of g; before anybody has finished it is
    `max_tokens`, or all that `model.max_model_len` allows: a cautious start. Never more than these two. A request has one
    draw (a quantile) for life, so that the same seed gives the same decisions whoever is asked when.

    An answer costs O(running).

    Parameters:
        reserved: share of the pool, 0 to less than 1, that is kept back for errors of the estimate (the paper: 3 to 10 %).
        window: finished outputs that are remembered.
        seed: of the draws.
    """

    def __init__(self, reserved: float = 0.05, window: int = 1000, seed: int = 0) -> None:
        if not 0 <= reserved < 1:
            raise ValueError(f"reserved must be a share of the pool, 0 <= reserved < 1, not {reserved}")
        if window < 1:
            raise ValueError(f"window must be at least 1 finished request, not {window}")
        self.reserved, self.seed = reserved, seed
        self.recent: deque[int] = deque()  # outputs, in order of finishing
        self.window = window
        self.lengths: list[int] = []  # the same, sorted
        self.quantiles: dict[RequestView, float] = {}
        self.plan_number = NEVER_ASKED  # of the plan that `held` is of
        self.held: list[tuple[int, int]] = []  # (left, has) of those who run
        self.refused: tuple[int, float] = (NEVER_ASKED, 0.0)  # in which plan, at which peak

    def admit(self, request, view):
        if not view.num_running:
            return ADMIT
        if view.plan_number != self.plan_number:
            self.plan_number = view.plan_number
            self.held = [self.demand(running, view) for running in view.running]
        peak = peak_of_future([*self.held, self.demand(request, view)])
        if peak < self.capacity(view):
            return ADMIT
        self.refused = (view.plan_number, peak)
        return LATER

    def capacity(self, view):
        limits = view.limits
        return (1 - self.reserved) * limits.num_blocks * limits.block_size

    def demand(self, request, view):
        """(left, has) of one request."""
        generated, prompt = request.generated, request.prompt_tokens
        return max(0, self.output(request, prompt, generated, view) - generated - 1), prompt + generated

    def output(self, request, prompt, generated, view):
        """Tokens that it is taken to yield in all."""
        most = view.limits.max_model_len - prompt
        if request.max_tokens is not None:
            most = min(most, request.max_tokens)
        if request.predicted_output is not None:
            return min(most, ceil(request.predicted_output))
        if not self.lengths:
            return most
        shorter = bisect_right(self.lengths, generated)
        longer = len(self.lengths) - shorter
        if not longer:
            return min(most, generated + 1 + generated // 10)
        return min(most, self.lengths[shorter + int(self.quantile(request) * longer)])

    def quantile(self, request):
        """The request's own draw, 0 <= draw < 1."""
        if request not in self.quantiles:
            digest = blake2b(f"{self.seed} past_future {request.id}".encode(), digest_size=6).digest()
            self.quantiles[request] = int.from_bytes(digest) / 2**48
        return self.quantiles[request]

    def steady_steps(self, view):
        """Who is refused at a peak stays refused until that has fallen below the capacity, by one a step at most.

        For those who run keep to their course, or come to be taken for longer, and the head, coming in a step later, is a
        token shorter at any time.
        """
        plan_number, peak = self.refused
        return floor(peak - self.capacity(view)) + 1 if view.plan_number == plan_number else FOR_EVER

    def on_admit(self, request, view):
        if view.plan_number == self.plan_number:
            self.held.append(self.demand(request, view))

    def on_preempt(self, request, mode, view):
        self.plan_number = NEVER_ASKED

    def on_finish(self, request, view):
        self.plan_number = NEVER_ASKED
        self.quantiles.pop(request, None)
        if request.state != "finished":
            return
        if len(self.recent) == self.window:
            del self.lengths[bisect_right(self.lengths, self.recent.popleft()) - 1]
        self.recent.append(request.generated)
        insort(self.lengths, request.generated)


def peak_of_future(held):
    """The most tokens held at one time by requests of (left, has)."""
    peak = total = 0
    for place, (left, has) in enumerate(sorted(held, reverse=True), 1):
        total += has
        peak = max(peak, left * place + total)
    return peak
