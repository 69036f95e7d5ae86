"""Admission: a share of the blocks stays free for those who run."""

from math import ceil

from twin.policy import ADMIT, LATER, Policy


class Watermark(Policy):
    """The head comes in only if a share of all blocks is still free afterwards, as long as anything runs.

    Idea: who runs needs a block now and then; without a reserve the next block after an admission already preempts somebody.
    Source: vLLM V0's block manager (Kwon et al., SOSP 2023, and vLLM 0.1 to 0.8: watermark 1 %). It decides on admission
    alone, so it is also a part of other policies: `policy.admission=watermark(share=0.05)`. Content that the head finds
    cached and that somebody holds costs nothing; what it finds in the free list is taken from there and counts. When
    nothing runs the head comes in if it fits. It needs to know nothing.

    Parameters:
        share: of all blocks, 0 to less than 1, that an admission has to leave free. `cache.watermark` is the same rule
            inside the core, for any policy; both may be set.
    """

    def __init__(self, share: float = 0.01) -> None:
        if not 0 <= share < 1:
            raise ValueError(f"share must be a share of the blocks, 0 <= share < 1, not {share}")
        self.share = share

    def admit(self, request, view):
        if not view.num_running:
            return ADMIT
        kept = ceil(self.share * view.limits.num_blocks - 1e-9)  # 0.07 * 100 is 7.000000000000001
        return ADMIT if view.free_blocks - request.admission_blocks >= kept else LATER
