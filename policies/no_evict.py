"""Admission: reserve to completion, so that nobody who has begun is ever preempted."""

from typing import Literal

from twin.policy import ADMIT, LATER, Policy, RequestView


class NoEvict(Policy):
    """The head comes in only if the most that all who run, and it, will ever hold fits: nobody is preempted for blocks.

    Source: GUARANTEED_NO_EVICT, the default of NVIDIA TensorRT-LLM's capacity scheduler. A request of P prompt tokens that
    yields m tokens holds ceil((P + m - 1) / block size) blocks at most, the last token's KV being never written; the sum
    over all who run and the head must not exceed the pool. What is reserved and not used (outputs shorter than m) is the
    price. Blocks that requests share are counted once for each: a reservation too much, never one too few. Samples of
    one request (`n` > 1), which a policy does not see, are not reserved for.

    It decides on admission alone: `policy.admission=no_evict`. A sum is kept, so an answer costs the same however many run.

    Parameters:
        by: what m is.
            max_tokens: the request's own limit, cut to `model.max_model_len`: a guarantee. A request that gave none may
                become as long as `model.max_model_len`, and so much is reserved for it: where that is more than the pool
                it runs alone.
            prediction: the predicted output, cut likewise (it needs a predictor): no guarantee, for who outgrows its
                prediction takes blocks that nobody reserved for it.
    """

    def __init__(self, by: Literal["max_tokens", "prediction"] = "max_tokens") -> None:
        self.by = by
        self.needs_prediction = by == "prediction"
        self.reserved: dict[RequestView, int] = {}  # blocks, of those who run
        self.total = 0

    def admit(self, request, view):
        if not view.num_running:
            return ADMIT  # nobody can be in its way
        return ADMIT if self.total + self.most(request, view.limits) <= view.limits.num_blocks else LATER

    def most(self, request, limits):
        """Blocks that the request will hold at most."""
        output = limits.max_model_len - request.prompt_tokens
        bound = request.max_tokens if self.by == "max_tokens" else max(request.predicted_output, request.generated + 1)
        if bound is not None:
            output = min(output, bound)
        return int(-(-(request.prompt_tokens + output - 1) // limits.block_size))

    def on_admit(self, request, view):
        self.reserved[request] = blocks = self.most(request, view.limits)
        self.total += blocks

    def on_preempt(self, request, mode, view):
        self.give_back(request)

    def on_finish(self, request, view):
        self.give_back(request)

    def give_back(self, request):
        self.total -= self.reserved.pop(request, 0)
