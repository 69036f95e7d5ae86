"""What a log says of the steps: intervals between stamps, each a sum of the steps that the simulator puts there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twin.calibrate.requests.log import RequestLog
from twin.calibrate.requests.served import Played, Steps

# How well a sum of terms foretells an interval, relative to it, and the steps by which the order of things slips.
WAIT_SD, PREFILL_SD, DECODE_SD, SLIP_STEPS = 0.03, 0.10, 0.02, 1.0
INDEPENDENT = 60  # most requests that count as independent; those that run together share their steps
ROBUST = 1.5  # standard deviations beyond which a residual counts by its size, not its square (Huber 1964)


def huber_weights(residuals: np.ndarray) -> np.ndarray:
    """Weights by which least squares minimise Huber's loss."""
    return ROBUST / np.maximum(np.abs(residuals), ROBUST)


def huber_loss(residuals: np.ndarray) -> np.ndarray:
    size = np.abs(residuals)
    return np.where(size < ROBUST, size**2 / 2, ROBUST * (size - ROBUST / 2))


@dataclass(frozen=True, eq=False)
class Evidence:
    """The requests that are fitted, and their intervals.

    wait: arrival to scheduled, prefill: scheduled to first token (both in one, where scheduled_s is empty), decode: first
    token to last. Intervals between stamps of different requests are not used: the order of steps drifts, and they are
    biased by it.
    """

    log: RequestLog
    chosen: np.ndarray  # rows

    def __post_init__(self) -> None:
        assert len(self.chosen) and self.log.stamped[self.chosen].all()

    @property
    def thinning(self) -> float:
        """Requests that count as one: what is wrong with a sum of terms is the same for all that run together, while where
        steps fall between arrivals is chance for each."""
        return max(1.0, len(self.chosen) / INDEPENDENT)

    @property
    def slip_s(self) -> float:
        """A shift that says nothing: an arrival that just misses a step waits for the next."""
        return SLIP_STEPS * float(np.nanmedian(self.log.tpot_s))

    def measured(self) -> tuple[np.ndarray, np.ndarray]:
        """(intervals in seconds, their standard deviations): wait, prefill and decode, one request after the other."""
        log, rows = self.log, self.chosen
        scheduled = self._scheduled(log.arrival_s, log.scheduled_s)[rows]
        wait, prefill = scheduled - log.arrival_s[rows], log.first_token_s[rows] - scheduled
        decode = log.decode_s[rows]
        parts = ((WAIT_SD * wait, 1.0), (PREFILL_SD * prefill, 1.0), (DECODE_SD * decode, 0.05))
        sds = [np.sqrt(self.thinning) * own + slips * self.slip_s for own, slips in parts]
        return np.concatenate((wait, prefill, decode)), np.concatenate(sds)

    def features(self, played: Played, steps: Steps, design: np.ndarray) -> np.ndarray:
        """(intervals, terms): the design (steps, terms) summed over the steps within each interval, as simulated."""
        log, rows = self.log, self.chosen
        summed = np.vstack((np.zeros(design.shape[1]), np.cumsum(design, axis=0)))

        def until(times_s: np.ndarray) -> np.ndarray:
            """Sum over the steps until these times; of a step under way, in proportion."""
            place = np.minimum(np.searchsorted(steps.end_s, times_s - 1e-9), len(design) - 1)
            length_s = np.maximum(steps.end_s[place] - steps.start_s[place], 1e-12)
            share = np.clip((times_s - steps.start_s[place]) / length_s, 0.0, 1.0)
            return np.asarray(summed[place] + share[:, None] * design[place])

        arrival = until(log.arrival_s[rows])
        scheduled = until(self._scheduled(log.arrival_s, played.scheduled_s)[rows])
        first, last = until(played.first_s[rows]), until(played.last_s[rows])
        return np.concatenate((scheduled - arrival, first - scheduled, last - first))

    def _scheduled(self, arrival_s: np.ndarray, scheduled_s: np.ndarray) -> np.ndarray:
        """Where the log has no scheduled stamp, wait and prefill are one interval."""
        return np.where(np.isfinite(self.log.scheduled_s), scheduled_s, arrival_s)

    def misfit(self, played: Played) -> float:
        """Huber's loss of the simulated stamps: time to the first token, and from there to the last."""
        log, rows = self.log, self.chosen
        intervals, sds = self.measured()
        wait_sd, _, decode_sd = sds.reshape(3, -1)
        first = (played.first_s - log.first_token_s)[rows] / wait_sd
        decode = ((played.last_s - played.first_s) - log.decode_s)[rows] / decode_sd
        residuals = np.concatenate((first, decode))
        return float(huber_loss(np.where(np.isfinite(residuals), residuals, 1e3)).sum())
