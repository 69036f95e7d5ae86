"""What shape and data sheet say of the coefficients, for profiles too small to know them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twin.calibrate.fit import Prior, basic_terms, solve
from twin.calibrate.readers.composed import Extent, draw_steps
from twin.calibrate.steps import GRID, Steps

if TYPE_CHECKING:
    from twin.latency.model import LatencyModel

COUNT = 600


def from_roofline(roofline: LatencyModel, within: Extent, relative_sd: float) -> Prior:
    """The basic terms fitted to steps that the roofline says the times of."""
    steps = draw_steps(within, COUNT)
    seconds = np.array([roofline.step_s(step) for step in steps])
    table = Steps(np.array(steps, float), seconds, ("roofline",), np.zeros(COUNT, int), GRID, "roofline")
    return Prior(solve(table, basic_terms(table)).values, relative_sd)
