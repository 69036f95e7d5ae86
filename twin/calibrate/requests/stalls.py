"""Who stalled: requests that were preempted while they generated, which a log without that column shows all the same.

In every step each generating request gets one token. So the steps done by time t, N(t), say how long any request takes: its
gaps are N(last) - N(first). One that took many more steps than it has gaps was not running in all of them.
"""

from __future__ import annotations

import numpy as np

from twin.calibrate.requests.log import RequestLog
from twin.calibrate.requests.served import Played, Steps

LEAST_SHARE, LEAST_STEPS = 0.04, 10.0  # of its gaps, and in steps: what a request must have missed to have stalled
SPREADS = 6.0  # standard deviations of the counting
MEDIAN_OF_NORMAL = 0.6745  # of the size of a deviation, in standard deviations
PIECES = 12  # of the run, in each of which the real pace may differ from the simulated
PACE_SD = 0.02
REWEIGHTINGS = 20


def missed_by(played: Played, steps: Steps, output_tokens: np.ndarray) -> np.ndarray:
    """Steps that each simulated request missed between its first and its last token: exact."""
    first, last = (np.searchsorted(steps.end_s, times - 1e-9) for times in (played.first_s, played.last_s))
    return np.asarray(last - first - (output_tokens - 1), float)


def missed_in(log: RequestLog, steps: Steps) -> np.ndarray:
    """The same of the real requests, nan where stamps are empty.

    The pace N'(t) is the simulated one times a factor for each piece of the run, which all requests together tell, but for
    those that missed steps: they count less and less.
    """
    rows = np.flatnonzero(log.stamped & (log.output_tokens > 1))
    missed = np.full(len(log), np.nan)
    gaps = log.output_tokens[rows] - 1.0
    done = np.arange(len(steps.end_s) + 1.0)
    clock = np.concatenate(([steps.start_s[0]], steps.end_s))
    edges = np.linspace(clock[0], max(clock[-1], float(log.finish_s[rows].max())), PIECES + 1)
    first, last = log.first_token_s[rows, None], log.finish_s[rows, None]

    def until(times_s: np.ndarray) -> np.ndarray:
        return np.interp(times_s, clock, done)

    counts = np.maximum(0.0, until(np.minimum(last, edges[1:])) - until(np.maximum(first, edges[:-1])))
    factors, noise = np.ones(PIECES), 0.004 * gaps + 2.0
    weights = np.ones(len(rows))
    for _ in range(REWEIGHTINGS):
        scale = np.sqrt(weights) / noise
        matrix = np.vstack((counts * scale[:, None], np.eye(PIECES) / PACE_SD))
        target = np.concatenate((gaps * scale, np.ones(PIECES) / PACE_SD))
        factors = np.linalg.lstsq(matrix, target, rcond=None)[0]
        missed[rows] = counts @ factors - gaps
        weights = 1 / (1 + np.maximum(0.0, missed[rows] / (2.5 * noise)) ** 2) ** 2
    return missed


def stalled(missed: np.ndarray, output_tokens: np.ndarray) -> np.ndarray:
    """Those who missed so much that it is no error of the counting: bool, one a request.

    How well steps are counted shows in all requests together, most of which missed none.
    """
    gaps = np.maximum(output_tokens - 1, 1)
    spread = float(np.nanmedian(np.abs(missed) / gaps)) / MEDIAN_OF_NORMAL
    least = np.maximum(LEAST_STEPS, max(LEAST_SHARE, SPREADS * spread) * gaps)
    return np.asarray(np.nan_to_num(missed) > least)
