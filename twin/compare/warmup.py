"""Where the steady state begins: the requests that are left out of the statistics because the system was still filling."""

from typing import NamedTuple

import numpy as np

from twin.results.columns import Table

BATCH = 5  # of MSER-5
LEAST = 20  # batches, below which nothing can be said


class Truncation(NamedTuple):
    """How many of the first observations to leave out, and whether a steady state was found at all."""

    observations: int
    found: bool


def mser5(series: np.ndarray) -> Truncation:
    """MSER-5: leave out what makes the standard error of the mean of the rest least.

    Means z of batches of five; d minimises sum over j >= d of (z_j - mean of these)^2 / (k - d)^2 over the first half of the
    k batches. A minimum at the end of that half means that there is no steady state in the series, or too little of it:
    then nothing is left out, and it says so. So is a series of less than 100.
    (White, An effective truncation heuristic for bias reduction in simulation output, Simulation 69, 1997; White, Cobb
    and Spratt, A comparison of five steady-state truncation heuristics for simulation, WSC 2000.)
    """
    size = len(series) // BATCH
    if size < LEAST:
        return Truncation(0, len(series) == 0)
    means = np.asarray(series[: size * BATCH], dtype=np.float64).reshape(size, BATCH).mean(axis=1)
    means -= means.mean()  # for the digits of what follows alone
    left = np.arange(size, 0, -1.0)
    sums, squares = np.cumsum(means[::-1])[::-1], np.cumsum((means**2)[::-1])[::-1]
    errors = np.maximum(squares - sums**2 / left, 0.0) / left**2
    half = size // 2
    best = int(np.argmin(errors[: half + 1]))
    return Truncation(0, False) if best == half else Truncation(best * BATCH, True)


def in_system(requests: Table, order: np.ndarray) -> np.ndarray:
    """How many requests are in the system as each arrives, itself not counted; shape [n], in the order of arrival.

    It is the state that fills up, the same for every latency; a request without an end has not left.
    """
    arrival_s = requests["arrival_s"][order]
    gone = requests["finish_s"][order]
    gone = np.sort(gone[~np.isnan(gone)])
    return np.arange(len(order)) - np.searchsorted(gone, arrival_s, side="right")


def arrival_order(requests: Table) -> np.ndarray:
    """Rows in the order of arrival; those that never came are left out."""
    order = np.argsort(requests["arrival_s"], kind="stable")
    return order[~np.isnan(requests["arrival_s"][order])]
