"""Tool calls: keep, swap or recompute, whichever wastes least memory time."""

from math import inf

from twin.policy import Policy, RequestView


class Infercept(Policy):
    """While a tool runs, the blocks of its request stay, go to the host or are given up: the least expected waste.

    Source: Abhyankar et al., "InferCept: Efficient Intercept Support for Augmented LLM Inference" (ICML 2024). Waste is
    memory that does no work, times how long, here in token-seconds. A request with C tokens computed that pauses for T
    seconds, while the others that run hold H tokens:

        keep        T * C                              its own tokens lie idle
        recompute   recompute_s * C * (C + H)          all wait while it is computed again
        swap        2 * swap_s * C * H                 the others wait for both transfers

    T is not known: it is taken to be the mean of the pauses seen so far, of which the first is `expected_pause_s`. On a tie
    it keeps, and it swaps only if the host has room. Kept blocks are the first to go when others need some. The paper also
    spreads transfers and recomputation over several steps; here a swap is as fast as `swap` says, and a prompt is computed
    in the chunks of the scheduler. It decides on pauses alone: `policy.pause=infercept` (or with parameters,
    `"policy.pause=infercept(expected_pause_s=3)"`). It needs to know the two costs; `policy.pause=recompute|swap|keep` need
    nothing.

    Parameters:
        expected_pause_s: seconds, the guess before a pause has been seen; it counts as one pause.
        recompute_per_token_s: seconds to compute a token of context again.
        swap_per_token_s: seconds to move a token's KV one way.
    """

    def __init__(
        self, expected_pause_s: float = 1.0, recompute_per_token_s: float = 1e-4, swap_per_token_s: float = 5e-6
    ) -> None:
        given = {
            "expected_pause_s": expected_pause_s,
            "recompute_per_token_s": recompute_per_token_s,
            "swap_per_token_s": swap_per_token_s,
        }
        for name, value in given.items():
            if not 0 <= value < inf:
                raise ValueError(f"{name} must be 0 or more seconds, not {value}")
        self.recompute_s, self.swap_s = recompute_per_token_s, swap_per_token_s
        self.pauses, self.paused_s = 1, expected_pause_s  # seen so far, and their sum
        self.since_s: dict[RequestView, float] = {}  # when the pauses of those who pause began

    def pause(self, request, view):
        self.since_s[request] = view.now
        own, others = request.computed, sum(other.computed for other in view.running)
        waste = {"keep": self.paused_s / self.pauses * own}
        if request.private_blocks <= view.free_host_blocks:
            waste["swap"] = 2 * self.swap_s * own * others
        waste["recompute"] = self.recompute_s * own * (own + others)
        return min(waste, key=waste.__getitem__)

    def on_resume(self, request, view):
        if request in self.since_s:
            self.pauses += 1
            self.paused_s += view.now - self.since_s.pop(request)

    def on_finish(self, request, view):
        self.since_s.pop(request, None)
