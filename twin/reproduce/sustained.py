"""The highest request rate that a server sustains: the largest at which the mean normalized latency stays low.

Normalized latency is end-to-end latency over output tokens (Orca; PagedAttention, section 6.1). Its curve over the rate is
flat, then all but vertical, so that the limit hardly matters. The rate is found by bisection, on the same requests for all.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any

from twin.cli.errors import UserError
from twin.reproduce.experiment import Experiment
from twin.reproduce.running import simulate

if TYPE_CHECKING:
    from twin.notebook import Run


def sustained_rates(
    experiment: Experiment, servers: Sequence[Mapping[str, Any]], bounds: Sequence[float], limit_s: float, halvings: int
) -> list[float]:
    """Requests/s of each server: the middle of the last interval, which is (high / low) ** 0.5**halvings wide.

    `bounds`: a rate that every server sustains and one that none does. Raises UserError where they are not so.
    """
    if len(bounds) != 2 or not 0 < bounds[0] < bounds[1]:
        raise UserError(f"bounds: {bounds} must be two rates in requests/s, the lower one first")
    low, high = bounds

    def latencies_s(rates: Sequence[float]) -> list[float]:
        variants = [{**server, "trace.rate": rate} for server, rate in zip(servers, rates, strict=True)]
        return simulate(experiment, variants, normalized_latency_s)

    for rate, sustained in ((low, True), (high, False)):
        for latency_s in latencies_s([rate] * len(servers)):
            if (latency_s <= limit_s) != sustained:
                raise UserError(
                    f"bounds: {latency_s:.3g} s a token at {rate:g} requests/s, the limit is {limit_s:g} s; every server "
                    f"must sustain the lower bound and none the higher one"
                )
    intervals = [(low, high)] * len(servers)
    for _ in range(halvings):
        middles = [sqrt(lower * upper) for lower, upper in intervals]
        intervals = [
            (rate, upper) if latency_s <= limit_s else (lower, rate)
            for latency_s, rate, (lower, upper) in zip(latencies_s(middles), middles, intervals, strict=True)
        ]
    return [sqrt(lower * upper) for lower, upper in intervals]


def normalized_latency_s(run: "Run") -> float:
    """Its mean over the requests, in seconds a token."""
    return float(run.summary["normalized_latency_s_mean"])
