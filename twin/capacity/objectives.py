"""What is asked of a rate: objectives, and how near one simulation comes to each of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twin.results.percentiles import METHOD
from twin.results.record import Record
from twin.results.slo import normalized_latency_s
from twin.results.summary import Summary, summarize
from twin.results.window import window

METRICS = ("ttft", "tpot", "itl", "e2e", "queue", "normalized_latency")
STATISTICS = ("mean", "p50", "p90", "p95", "p99")
PER_REQUEST = ("ttft_s", "tpot_s", "e2e_s", "queue_s", "normalized_latency_s")
ATTAINMENT = "attainment"
DECODE_STEPS = "itl_p99_decode_steps"


class ObjectiveError(ValueError):
    """An objective is missing or impossible; the message is one line that names the option."""


@dataclass(frozen=True)
class Objectives:
    """Limits of statistics, seconds, by option (`ttft_p99`), and limits of single requests, seconds, by metric."""

    limits: Mapping[str, float]
    per_request: Mapping[str, float]
    attainment: float  # the share of requests that must keep all limits of `per_request`

    @property
    def names(self) -> list[str]:
        return [*self.limits, *([ATTAINMENT] if self.per_request else [])]

    def limit(self, name: str) -> float:
        """In the objective's own unit: seconds, or a share of the requests that is the least allowed."""
        return self.attainment if name == ATTAINMENT else self.limits[name]

    def in_words(self) -> str:
        """All of them, as an SLO is written."""
        parts = [f"{name} <= {limit:g} s" for name, limit in self.limits.items()]
        if self.per_request:
            kept = " and ".join(f"{name.removesuffix('_s')} <= {limit:g} s" for name, limit in self.per_request.items())
            parts.append(f"{100 * self.attainment:g} % of the requests with {kept}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Sample:
    """One simulation: how it stands to each objective."""

    seed: int
    values: Mapping[str, float]  # seconds, or the share of requests that kept their limits
    ratios: Mapping[str, float]  # how much of what an objective allows was used: at most 1 is met
    saturated: bool  # the queue grew for as long as requests came
    counts: Mapping[str, int] = field(default_factory=dict)  # requests by what became of them
    throughput: float | None = None  # requests/s


def objectives_from(slo: Mapping[str, Any], decode_step_s: float) -> Objectives:
    """The objectives that are set among the options of `slo`; `decode_step_s` is what slo.itl_p99_decode_steps counts in.

    `ttft_p99` and the like speak of all requests, `ttft_s` and the like of single ones. Raises ObjectiveError if none is.
    """
    limits = {
        f"{metric}_{statistic}": float(limit)
        for metric in METRICS
        for statistic in STATISTICS
        if (limit := slo.get(f"{metric}_{statistic}")) is not None
    }
    if (steps := slo.get(DECODE_STEPS)) is not None:
        limits["itl_p99"] = min(limits.get("itl_p99", np.inf), float(steps) * decode_step_s)
    per_request = {name: float(limit) for name in PER_REQUEST if (limit := slo.get(name)) is not None}
    if not limits and not per_request:
        raise ObjectiveError(
            "slo: no objective is given; give one or more, slo.ttft_p99=1.5 slo.tpot_p99=0.05, or a preset: "
            "slo=sarathi, slo=distserve"
        )
    return Objectives(limits, per_request, float(slo.get("attainment") or 1.0))


def sample(record: Record, objectives: Objectives, seed: int, warmup_s: float, warmup_requests: int) -> Sample:
    """How a simulation stands to the objectives. Raises ObjectiveError for one that speaks of what no request has."""
    summary = summarize(record, slo=objectives.per_request, warmup_s=warmup_s, warmup_requests=warmup_requests)
    if not summary["requests"]:
        raise ObjectiveError("capacity.warmup: no request is left to be measured; give a shorter warm-up or more requests")
    values: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for name, limit in objectives.limits.items():
        values[name] = _value(name, record, summary, warmup_s, warmup_requests)
        ratios[name] = values[name] / limit
    if objectives.per_request:
        share = float(summary["slo_attainment"] or 0.0)
        allowed = 1.0 - objectives.attainment
        values[ATTAINMENT] = share
        ratios[ATTAINMENT] = (1.0 - share) / allowed if allowed > 0 else (0.0 if share == 1.0 else np.inf)
    counts = {name: int(summary[name]) for name in ("requests", "finished", "rejected", "aborted", "unfinished")}
    return Sample(seed, values, ratios, bool(summary["saturated"]), counts, summary["request_throughput"])


def _value(name: str, record: Record, summary: Summary, warmup_s: float, warmup_requests: int) -> float:
    """The statistic, seconds: that of summary.json; of percentiles, requests that were refused or never served count as
    infinitely late (one that its user aborted does not)."""
    metric, _, statistic = name.rpartition("_")
    found = summary[f"{metric}_s_{statistic}"]
    if metric != "itl" and statistic != "mean" and summary["rejected"] + summary["unfinished"]:
        measured = window(record, warmup_s, warmup_requests).measured
        column = normalized_latency_s(record) if metric == "normalized_latency" else record.requests[f"{metric}_s"]
        lost = np.isin(record.requests["status"].astype(str), ("rejected", "unfinished"))
        column = np.where(lost & np.isnan(column), np.inf, column)[measured]
        found = percentile(column[~np.isnan(column)], float(statistic[1:]))
    if found is None:
        raise ObjectiveError(f"slo.{name}: no request of this trace has such a time; leave the objective out")
    return float(found)


def percentile(values: np.ndarray, percent: float) -> float | None:
    """numpy's, where some values may be infinite: as soon as it lies beyond the last finite one it is infinite."""
    finite = np.sort(values[np.isfinite(values)])
    place = (len(values) - 1) * percent / 100.0
    if not len(values) or np.ceil(place) >= len(finite):
        return np.inf if len(values) else None
    return float(np.percentile(np.append(finite, np.full(len(values) - len(finite), finite[-1])), percent, method=METHOD))
