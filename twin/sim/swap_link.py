"""The link between device and host: a resource with bandwidth and a cost per copy, one transfer at a time.

Seconds of a transfer = blocks x (bytes a block / bandwidth + per copy). Whoever needs it while it is busy waits in line, so
a replica's own swaps, or those of several replicas on one link, add up. `overlap`: a transfer runs beside the step's
computation and the step ends with the later of the two; without it (vLLM V0) the step waits for its transfers first.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SwapCost:
    """What a transfer costs; bandwidth None and per_copy_s 0 are free."""

    bytes_per_block: int = 0
    bandwidth_gib_s: float | None = None
    per_copy_s: float = 0.0
    overlap: bool = False

    def __post_init__(self) -> None:
        gib_s, per_copy_s = self.bandwidth_gib_s, self.per_copy_s
        if gib_s is not None and not (isinstance(gib_s, (int, float)) and gib_s > 0):
            raise ValueError(f"swap.bandwidth_gib_s must be more than 0 GiB/s, not {gib_s!r}")
        if not (isinstance(per_copy_s, (int, float)) and 0 <= per_copy_s < math.inf):
            raise ValueError(f"swap.per_copy_s must be a time of at least 0 s, not {per_copy_s!r}")

    def seconds(self, blocks: int) -> float:
        """To move so many blocks, one way."""
        transfer_s = 0.0
        if self.bandwidth_gib_s is not None:
            transfer_s = self.bytes_per_block / (self.bandwidth_gib_s * 2**30)
        return blocks * (transfer_s + self.per_copy_s)


class SwapLink:
    """A first-come-first-served resource: `busy_until_s` is all its state."""

    def __init__(self, cost: SwapCost) -> None:
        self.cost = cost
        self.busy_until_s = 0.0
        self.blocks_moved = 0

    def end_of_step(self, start_s: float, compute_s: float, blocks: int) -> float:
        """When a step ends that starts at `start_s`, computes for `compute_s` and moves so many blocks."""
        if not blocks:
            return start_s + compute_s
        self.blocks_moved += blocks
        seconds = self.cost.seconds(blocks)
        if not seconds:
            return start_s + compute_s
        moved_s = max(start_s, self.busy_until_s) + seconds
        self.busy_until_s = moved_s
        return max(start_s + compute_s, moved_s) if self.cost.overlap else moved_s + compute_s
