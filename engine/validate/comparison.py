"""The simulator's figures beside the engine's, each with a tolerance and a verdict of its own.

The engine runs several times. An error is that of the simulator's figure against the mean of theirs, as a share of that
mean; the growth of a queue is the difference of two rates and may be nothing, so that its error is a share of the arrival
rate. The engine's own spread is how far the farthest of its runs lies from that mean, likewise. A figure is right if its
error is within its tolerance, or within that spread: then another run of the engine might as well have had it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from engine.validate.options import LATENCIES, STATISTICS

WITHIN, WITHIN_SPREAD, OUTSIDE, UNDEFINED = "within tolerance", "within the engine's spread", "OUTSIDE", "not defined"
SATURATED = 1.0  # loads from here on: latencies grow with the length of the run and mean nothing
KEYS = {f"{metric} {statistic}": f"{metric}_s_{statistic}" for metric in LATENCIES for statistic in STATISTICS}
KEYS |= {"throughput": "request_throughput", "queue_slope": "queue_slope_per_s"}


class Row(NamedTuple):
    """One figure at one load. Seconds, requests/s; shares."""

    metric: str
    engine: float | None  # mean of its runs
    simulator: float | None
    error: float | None  # simulator - engine, over the engine's mean or the arrival rate
    spread: float | None  # of the engine's runs; None of a single one
    tolerance: float
    verdict: str


def metrics_at(load: float) -> list[str]:
    """What is judged at a load."""
    if load >= SATURATED:
        return ["throughput", "queue_slope"]
    return [metric for metric in KEYS if metric != "queue_slope"]


def compare(
    load: float,
    rate: float,
    engine: Sequence[Mapping[str, Any]],
    simulator: Mapping[str, Any],
    tolerances: Mapping[str, float],
) -> list[Row]:
    """All figures of one load, at which `rate` requests arrive a second; `engine`: the summaries of its runs."""
    rows = []
    for metric in metrics_at(load):
        values, unit = [summary[KEYS[metric]] for summary in engine], rate if metric == "queue_slope" else None
        rows.append(judge(metric, values, simulator[KEYS[metric]], tolerances[metric], unit))
    return rows


def judge(
    metric: str, engine: Sequence[float | None], simulator: float | None, tolerance: float, unit: float | None = None
) -> Row:
    """`unit`: of which errors are shares; None: of the engine's mean, which must not be 0 then.

    A figure that neither side has (a queue of too few arrivals, say) is not defined; one that one side has is wrong.
    """
    known = [value for value in engine if value is not None]
    if not known and simulator is None:
        return Row(metric, None, None, None, None, tolerance, UNDEFINED)
    if len(known) < len(engine) or not known or simulator is None:
        return Row(metric, sum(known) / len(known) if known else None, simulator, None, None, tolerance, OUTSIDE)
    mean = sum(known) / len(known)
    unit = unit or abs(mean)
    error = (simulator - mean) / unit
    spread = max(abs(value - mean) for value in known) / unit if len(known) > 1 else None
    if abs(error) <= tolerance:
        verdict = WITHIN
    elif spread is not None and abs(error) <= spread:
        verdict = WITHIN_SPREAD
    else:
        verdict = OUTSIDE
    return Row(metric, mean, simulator, error, spread, tolerance, verdict)


def cancelling(rows: Sequence[Row]) -> str | None:
    """Where TTFT and TPOT are wrong in opposite directions, E2E looks better than either: said in words, else None."""
    by_metric = {row.metric: row for row in rows}
    ttft, tpot, e2e = (by_metric.get(f"{metric} mean") for metric in ("ttft", "tpot", "e2e"))
    if not (ttft and tpot and e2e) or ttft.error is None or tpot.error is None or e2e.error is None:
        return None
    opposite = ttft.error * tpot.error < 0 and OUTSIDE in (ttft.verdict, tpot.verdict)
    if not opposite or abs(e2e.error) >= max(abs(ttft.error), abs(tpot.error)):
        return None
    errors = (("TTFT", ttft.error), ("TPOT", tpot.error), ("E2E", e2e.error))
    told = [f"{name} {100 * error:+.1f} %" for name, error in errors]
    return f"{told[0]} and {told[1]} cancel in {told[2]}: look at each by itself"
