"""Where a descending order of tokens reaches a sum: top-k and top-p without sorting.

A radix select. The keys have 30 bits; their highest 10 are the token's bucket. The sums of the 1024 buckets say in which one
the goal is reached; its tokens are then told apart by their next 10 bits, and by the last. Three passes over a row, on a CPU
a quarter of the time of a sort; sums of integers, so no order of additions shows in the result.
"""

from __future__ import annotations

import torch
from torch import Tensor

DIGIT_BITS = 10
BUCKETS = 1 << DIGIT_BITS


def least_key_reaching(keys: Tensor, measure: Tensor, goal: Tensor) -> Tensor:
    """int32 [rows]: the largest key such that the tokens with this key or a larger one measure at least `goal` together.

    `keys` int32 [rows, vocab] in [0, 2^30); `measure` int64 [rows, vocab], not negative; `goal` int64 [rows], at least 1;
    one above the row's sum gives 0. No host sync, fixed shapes.
    """
    found = torch.zeros_like(goal, dtype=torch.int32)[:, None]
    goal = goal[:, None]
    for shift in (2 * DIGIT_BITS, DIGIT_BITS, 0):
        digits = keys >> shift
        inside = torch.where(digits >> DIGIT_BITS == found, measure, 0)
        buckets = measure.new_zeros(len(keys), BUCKETS).scatter_add_(1, (digits & (BUCKETS - 1)).long(), inside)
        from_above = buckets.flip(1).cumsum(1)
        # the clamp is for a goal above the sum: the lowest bucket
        place = torch.searchsorted(from_above, goal).clamp_(max=BUCKETS - 1)
        digit = BUCKETS - 1 - place
        goal = goal - from_above.gather(1, place) + buckets.gather(1, digit)
        found = (found << DIGIT_BITS) | digit.int()
    return found.squeeze(1)
