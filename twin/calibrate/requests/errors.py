"""How far the simulated log lies from the real one, metric by metric; none can hide behind another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twin.calibrate.requests.log import RequestLog
from twin.calibrate.requests.served import Played

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
METRICS = ("ttft", "tpot", "e2e")
# Percent: what a calibrated simulator should reach on requests that it was not fitted to.
TARGETS: Mapping[str, Mapping[str, float]] = {
    "ttft": {"mean": 1.0, "p50": 1.5, "p90": 1.5, "p99": 2.0, "each": 2.0},
    "tpot": {"mean": 1.0, "p50": 1.5, "p90": 1.5, "p99": 1.5, "each": 5.0},
    "e2e": {"mean": 1.0, "p50": 1.5, "p90": 1.5, "p99": 1.5, "each": 2.5},
}
MAKESPAN_TARGET = 1.5
QUEUED_STEPS = 10  # a request that waited for longer than so many decode steps was queued


@dataclass(frozen=True)
class Errors:
    """Signed relative errors in percent: {metric: {"mean", "p50", "p90", "p99"}}; `each` is the 90th percentile over the
    requests of the size of a request's own error (of the first token: over those that queued), `correlation` over them."""

    requests: int
    signed: dict[str, dict[str, float]]
    each: dict[str, float]
    correlation: dict[str, float]
    makespan: float

    def flat(self) -> dict[str, float]:
        """ttft_mean, ... , each value rounded to hundredths of a percent, for a latency file."""
        found = {f"{metric}_{name}": value for metric, values in self.signed.items() for name, value in values.items()}
        found |= {f"{metric}_each_p90": value for metric, value in self.each.items()}
        found["makespan"] = self.makespan
        return {name: round(float(value), 2) for name, value in found.items() if np.isfinite(value)}

    def missed_targets(self) -> list[str]:
        """Which errors are beyond what should be reached, in words."""
        found = []
        for metric, limits in TARGETS.items():
            values = {**self.signed[metric], "each": abs(self.each[metric])}
            found += [f"{metric} {name} {values[name]:+.2f} %" for name, most in limits.items() if abs(values[name]) > most]
        return found + ([f"makespan {self.makespan:+.2f} %"] if abs(self.makespan) > MAKESPAN_TARGET else [])


def errors(log: RequestLog, played: Played, rows: np.ndarray) -> Errors:
    """Of these requests, all of which have stamps."""
    real = {"ttft": log.ttft_s, "tpot": log.tpot_s, "e2e": log.e2e_s}
    gaps = np.where(log.output_tokens > 1, log.output_tokens - 1, np.nan)
    simulated = {
        "ttft": played.first_s - log.arrival_s,
        "tpot": (played.last_s - played.first_s) / gaps,
        "e2e": played.last_s - log.arrival_s,
    }
    signed, each, correlation = {}, {}, {}
    for metric in METRICS:
        known = rows[np.isfinite(real[metric][rows])]
        ours, theirs = simulated[metric][known], real[metric][known]
        signed[metric] = {"mean": percent(ours.mean(), theirs.mean())} | {
            name: percent(np.quantile(ours, share), np.quantile(theirs, share)) for name, share in QUANTILES.items()
        }
        own = np.abs(ours / theirs - 1)[queued(log, known) if metric == "ttft" else slice(None)]
        each[metric] = float(100 * np.quantile(own, 0.9)) if len(own) else float("nan")
        varied = len(known) > 2 and ours.std() > 0 and theirs.std() > 0
        correlation[metric] = float(np.corrcoef(ours, theirs)[0, 1]) if varied else float("nan")
    makespan = percent(np.nanmax(played.last_s[rows]), np.nanmax(log.finish_s[rows]))
    return Errors(len(rows), signed, each, correlation, makespan)


def queued(log: RequestLog, rows: np.ndarray) -> np.ndarray:
    """Which of them waited before they were scheduled: bool."""
    wait_s = np.where(np.isfinite(log.scheduled_s), log.scheduled_s - log.arrival_s, log.ttft_s)[rows]
    return np.asarray(wait_s > QUEUED_STEPS * np.nanmedian(log.tpot_s))


def percent(ours: float, theirs: float) -> float:
    return float(100 * (ours / theirs - 1)) if theirs else float("nan")
