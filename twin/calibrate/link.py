"""The link between device and host, from steps before which blocks were swapped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twin.calibrate.nnls import nnls
from twin.calibrate.steps import Swaps

GIB = 2**30
FEWEST = 6  # rows, of at least three different sizes


@dataclass(frozen=True)
class Link:
    """seconds = bytes / bandwidth + copies * per copy, beside what the step takes anyway."""

    bandwidth_gib_s: float | None  # None: moving bytes took no measurable time
    per_copy_s: float
    mape: float  # of whole steps, in the fit; a share
    rows: int


def fit_link(swaps: Swaps) -> Link | None:
    """Weights 1 / sqrt(duration), as for steps. None where the rows are too few, or all alike."""
    if len(swaps.seconds) < FEWEST or len(np.unique(swaps.blocks)) < 3:
        return None
    rows = np.stack([np.ones(len(swaps.blocks)), swaps.blocks * swaps.block_bytes, swaps.copies], axis=1)
    weight = 1 / np.sqrt(swaps.seconds)
    values = nnls(rows * weight[:, None], swaps.seconds * weight)
    error = np.abs(rows @ values / swaps.seconds - 1)
    bandwidth = 1 / (values[1] * GIB) if values[1] > 0 else None
    return Link(bandwidth, float(values[2]), float(error.mean()), len(error))
