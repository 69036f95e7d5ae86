"""Which steps are held out from a fit: blocks of neighbours or whole runs, never points at random.

A point of a grid whose neighbours and repeats are all in the fit says nothing of what lies between the points.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twin.calibrate.steps import RUN, Steps
from twin.nearest import nearest

FOLDS = 5
STRETCHES = 10  # into which a single run is cut


def blocks(steps: Steps) -> np.ndarray:
    """(rows,) the number of the block that each step is in: its run, a tenth of the only run, or a cell of the grid."""
    if steps.kind == RUN:
        if len(np.unique(steps.run)) > 1:
            return steps.run
        return np.arange(len(steps)) * STRETCHES // len(steps)
    return cells(steps)


def cells(steps: Steps) -> np.ndarray:
    """Steps whose decodes, context of a decode, prefill and context before it all agree within a factor of two."""
    decodes, prefill = steps.column("decode_tokens"), steps.column("prefill_tokens")
    of_prefill, parts = steps.column("prefill_context_tokens"), steps.column("prefill_sequences")
    context = (steps.column("context_tokens") - of_prefill) / np.maximum(decodes, 1)
    before = (of_prefill - prefill) / np.maximum(parts, 1)
    sizes = np.stack([decodes, context, prefill, before], axis=1)
    return np.unique(np.log2(1 + sizes).astype(int), axis=0, return_inverse=True)[1].reshape(-1)


def folds(block: np.ndarray, most: int = FOLDS) -> list[np.ndarray]:
    """At most so many masks of steps, each of whole blocks that lie apart; together they are all steps."""
    numbers = np.unique(block)
    count = min(most, len(numbers))
    return [np.isin(block, numbers[first::count]) for first in range(count)]


def named(steps: Steps, names: Sequence[str]) -> np.ndarray:
    """The steps of the runs of these names. Raises ValueError for one that is not there, and if no other would be left."""
    unknown = [name for name in names if name not in steps.runs]
    if unknown:
        there = ", ".join(steps.runs)
        raise ValueError(f"holdout={unknown[0]}: no such run; there are {there}{nearest(unknown[0], steps.runs)}")
    mask = np.isin(steps.run, [steps.runs.index(name) for name in names])
    if mask.all():
        raise ValueError(f"holdout={','.join(names)}: nothing is left to fit to; name some of {', '.join(steps.runs)}")
    return mask
