"""The curve of a day: arrivals moved in time so that the hours have their shares of the load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from traces.trace import Trace
from traces.transforms.common import moved, require_arrivals

DAY_S, HOUR_S = 86400.0, 3600.0

# Mean load of each hour over that of the day: measured on ServeGen's client rates (github.com/alibaba/ServeGen,
# Apache-2.0; Xiang et al., arXiv:2505.09999, 2025), two weeks of each service class, hour 0 that of its clock.
# fmt: off
CURVES: dict[str, tuple[float, ...]] = {
    "servegen_small": (
        0.839, 0.714, 0.733, 0.676, 0.714, 0.66, 0.684, 0.855, 1.015, 1.054, 1.125, 1.093,
        1.06, 1.073, 1.06, 1.047, 1.091, 1.079, 1.007, 1.229, 1.456, 1.402, 1.27, 1.063,
    ),
    "servegen_mid": (
        1.01, 1.043, 1.147, 1.17, 1.021, 0.937, 0.981, 1.061, 0.979, 0.993, 1.106, 1.111,
        0.955, 1.128, 1.058, 0.848, 0.841, 0.925, 0.902, 0.89, 1.014, 0.933, 0.927, 1.021,
    ),
    "servegen_large": (
        0.994, 1.002, 0.986, 0.936, 0.908, 0.883, 0.854, 0.817, 0.788, 0.868, 1.046, 1.106,
        0.971, 0.981, 1.047, 1.047, 1.109, 1.078, 1.04, 1.143, 1.133, 1.074, 1.103, 1.086,
    ),
    "servegen_reason": (
        1.206, 1.389, 2.034, 1.788, 1.064, 0.908, 0.749, 0.577, 0.596, 0.664, 0.81, 0.83,
        0.447, 0.545, 0.684, 0.704, 0.878, 0.553, 0.749, 0.587, 1.24, 1.621, 2.194, 1.181,
    ),
    "servegen_image": (
        0.591, 0.889, 1.118, 0.866, 0.965, 0.939, 0.868, 0.916, 0.866, 1.113, 1.334, 1.25,
        1.08, 1.104, 1.262, 1.301, 1.347, 1.06, 0.887, 0.917, 1.015, 0.887, 0.825, 0.599,
    ),
}
# fmt: on


@dataclass(frozen=True)
class DayCurve:
    """24 hourly factors on the mean rate, scaled so that their mean is 1; day follows day."""

    factors: tuple[float, ...]

    @classmethod
    def of(cls, given: object) -> DayCurve:
        """From a name of `CURVES` or 24 numbers; raises ValueError for anything else."""
        forms = f"24 hourly factors or one of {', '.join(CURVES)}"
        if isinstance(given, str):
            if given not in CURVES:
                raise ValueError(f"trace.day_curve={given}: must be {forms}")
            given = CURVES[given]
        if not isinstance(given, Sequence) or len(given) != 24:
            raise ValueError(f"trace.day_curve={given}: must be {forms}")
        for factor in given:
            if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 <= factor < math.inf:
                raise ValueError(f"trace.day_curve has the factor {factor}, must be a number of at least 0")
        mean = math.fsum(given) / 24
        if mean == 0:
            raise ValueError("trace.day_curve is 0 at every hour: one at least must be more")
        return cls(tuple(factor / mean for factor in given))

    def _loads(self) -> np.ndarray:
        """What has come by the end of each hour, in seconds of an even day: [25], from 0 to 86,400."""
        loads = np.concatenate(([0.0], np.cumsum(self.factors))) * HOUR_S
        return loads * (DAY_S / loads[-1])

    def load(self, time_s: np.ndarray | float) -> np.ndarray:
        """The integral of the factors from 0 to `time_s`: the time by which an even day has brought as much."""
        days = np.floor(np.asarray(time_s) / DAY_S)
        return days * DAY_S + np.interp(time_s - days * DAY_S, np.arange(25) * HOUR_S, self._loads())

    def warp(self, even_s: np.ndarray) -> np.ndarray:
        """The inverse of `load`: when what comes at `even_s` of an even day comes on this one; keeps the order."""
        days = np.floor(even_s / DAY_S)
        warped = days * DAY_S + np.interp(even_s - days * DAY_S, self._loads(), np.arange(25) * HOUR_S)
        return np.maximum.accumulate(warped)  # rounding at the hours' ends must not disorder


def along_day(trace: Trace, curve: DayCurve) -> Trace:
    """The same requests in the same order, at times such that the rate at time t is the mean rate * factor(t).

    A trace that is not even has its own ups and downs besides. Over whole days the mean rate stays what it was.
    """
    require_arrivals(trace, "trace.day_curve")
    peak = int(np.argmax(curve.factors))
    note = f"arrivals along a day's curve: {max(curve.factors):.3g} times the mean rate from {peak} h, at least "
    note += f"{min(curve.factors):.3g} times"
    return replace(moved(trace, curve.warp(trace.arrival_s)), report=trace.report.noting(note))
