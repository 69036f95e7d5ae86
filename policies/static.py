"""Request-level batching: a batch is filled when nothing runs, and runs until all of it has ended."""

from twin.policy import ADMIT, LATER, Policy


class Static(Policy):
    """A batch is filled when nothing runs, and nobody joins until all its members have ended.

    Source: request-level batching as in NVIDIA FasterTransformer with Triton's batcher, the baseline of Orca (Yu et al.,
    OSDI 2022) and of the PagedAttention paper (Kwon et al., SOSP 2023). A batch takes requests in order of arrival up to
    `scheduler.max_num_seqs`, with whole prompts; a prompt longer than `scheduler.max_num_batched_tokens` runs alone, in
    chunks. Each member has a contiguous reservation of `model.max_model_len` tokens. One that ends early leaves at once
    and frees its memory, but nobody takes its place. It needs to know nothing.
    """

    allocator = "contiguous"

    def __init__(self) -> None:
        self.batch = 0  # the plan that fills it
        self.budget = 0  # tokens of that plan that are left

    def admit(self, request, view):
        if not view.num_running:
            self.batch, self.budget = view.plan_number, view.limits.max_num_batched_tokens
        elif view.plan_number != self.batch or request.pending > self.budget:
            return LATER
        self.budget -= request.pending
        return ADMIT
