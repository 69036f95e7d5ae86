"""Can these durations be seconds? A table in milliseconds would be fitted as well as any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twin.calibrate.steps import Steps

if TYPE_CHECKING:
    from twin.latency.model import LatencyModel

MOST_RATIO = 200.0  # of measured and data sheet; a slip in the unit makes a factor of a thousand
LEAST_RATIO = 1 / 50
LIGHTEST = 0.1  # share of the steps; they hold one decode or few
MOST_LIGHT_S, LEAST_LIGHT_S = 5.0, 2e-5


def wrong_unit(steps: Steps, roofline: LatencyModel | None) -> str | None:
    """Why the durations cannot be seconds, in words; None if they can.

    `roofline` is what the data sheet says of the model on its device, where both are known.
    """
    if roofline is not None:
        rows = np.linspace(0, len(steps) - 1, min(len(steps), 200)).astype(int)
        ratio = float(np.median([steps.seconds[row] / roofline.step_s(steps.step(row)) for row in rows]))
        if not LEAST_RATIO < ratio < MOST_RATIO:
            return f"the steps take {ratio:.3g} times as long as shape and data sheet say"
        return None
    light = float(np.quantile(steps.seconds, LIGHTEST))
    if not LEAST_LIGHT_S < light < MOST_LIGHT_S:
        return f"a tenth of the steps take less than {light:.3g} s, and the others more"
    return None
