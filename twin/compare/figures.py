"""What is measured of a run: each figure by its name in summary.json, over the requests that are not of the warm-up."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from twin.results.columns import FINISHED, Table
from twin.results.load import Run
from twin.results.percentiles import METHOD

Rows = Mapping[str, np.ndarray]  # columns of requests, and `normalized_latency_s`, `good`

LOWER, HIGHER, NEITHER = -1, 1, 0  # which direction is better
NAN = float("nan")


class Figure(NamedTuple):
    """A figure: of any stretch of requests (`of_rows`), or of a run as a whole (`of_run`)."""

    key: str
    name: str
    unit: str
    factor: float  # to the unit
    better: int
    of_rows: Callable[[Rows], float] | None = None
    of_run: Callable[["Measured"], float] | None = None
    least: int = 10  # requests in a section

    @property
    def percentile(self) -> bool:
        return self.key[-3:] in ("p50", "p90", "p95", "p99")


class Measured(NamedTuple):
    """A run without its warm-up."""

    run: Run
    rows: dict[str, np.ndarray]  # the measured requests, in trace order
    limits: Mapping[str, float]  # the SLO

    def arrivals_s(self) -> tuple[float, float]:
        """The first and the last arrival; 0, 0 where nobody came."""
        known = self.rows["arrival_s"][~np.isnan(self.rows["arrival_s"])]
        return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)

    def duration_s(self) -> float:
        """First arrival to last completion."""
        done = self.rows["finish_s"][self.rows["status"] == FINISHED]
        return float(done.max()) - self.arrivals_s()[0] if len(done) else 0.0


def measured(run: Run, keep: np.ndarray, limits: Mapping[str, float]) -> Measured:
    """The rows to measure; `keep` is bool, a row of requests."""
    rows: dict[str, np.ndarray] = {name: column[keep] for name, column in run.requests.items()}
    tokens = rows["generated_tokens"]
    rows["normalized_latency_s"] = np.divide(rows["e2e_s"], tokens, out=np.full(len(tokens), np.nan), where=tokens > 0)
    rows["good"] = meets(rows, limits)
    return Measured(run, rows, limits)


def meets(rows: Rows, limits: Mapping[str, float]) -> np.ndarray:
    """Which requests finished within every limit (`ttft_s`, `tpot_s`, `e2e_s`); one that is not defined is kept."""
    good = rows["status"] == FINISHED
    for name, limit in limits.items():
        good = good & ~(rows[name] > limit)
    return good.astype(np.float64)


def jain(values: np.ndarray) -> float:
    """Jain's index (sum x)^2 / (n sum x^2): 1 where all have the same, 1/n where one has all (Jain, Chiu, Hawe 1984)."""
    known = values[~np.isnan(values)]
    squares = float((known**2).sum())
    return float(known.sum()) ** 2 / (len(known) * squares) if squares > 0 else NAN


def by_user(rows: Rows, column: str = "normalized_latency_s") -> dict[str, float]:
    """The mean of a column for each user, in the order of names; nan for one who got nothing."""
    users = rows["user"]
    names = sorted({str(user) for user in users if user is not None})
    return {name: _mean(rows[column][users == name]) for name in names}


def figures(limits: Mapping[str, float], users: bool) -> list[Figure]:
    """All of them; goodput where there is an SLO, fairness where there are users."""
    made = [
        *(_latency(column, name, unit, factor, kind) for column, name, unit, factor in LATENCIES for kind in STATISTICS),
        Figure("request_throughput", "throughput", "requests/s", 1, HIGHER, of_run=lambda each: _rate(each, None)),
        Figure("output_token_throughput", "output tokens", "tokens/s", 1, HIGHER,
               of_run=lambda each: _rate(each, "generated_tokens")),
    ]  # fmt: skip
    if limits:
        made += [
            Figure("slo_attainment", "met the SLO", "%", 100, HIGHER, of_rows=lambda rows: _mean(rows["good"])),
            Figure("goodput", "goodput", "requests/s", 1, HIGHER, of_run=_goodput),
        ]
    made += [
        Figure("preemptions", "preemptions a request", "", 1, LOWER, of_rows=lambda rows: _mean(rows["preemptions"])),
        Figure("recomputed_tokens", "computed again a request", "tokens", 1, LOWER,
               of_rows=lambda rows: _mean(rows["recomputed_tokens"])),
        Figure("cached_tokens", "prefix cache hits a request", "tokens", 1, HIGHER,
               of_rows=lambda rows: _mean(rows["cached_tokens"])),
        Figure("utilisation", "busy", "%", 100, NEITHER,
               of_run=lambda each: utilisation(each.run.steps, *each.arrivals_s())),
        Figure("queue_slope_per_s", "growth of the queue", "requests/s", 1, LOWER,
               of_run=lambda each: _said(each, "queue_slope_per_s")),
        Figure("kv_usage_mean", "KV blocks used", "%", 100, NEITHER, of_run=lambda each: _said(each, "kv_usage_mean")),
        Figure("batch_size_mean", "batch size", "sequences", 1, NEITHER, of_run=lambda each: _said(each, "batch_size_mean")),
    ]  # fmt: skip
    if users:
        made.append(Figure("jain_index", "Jain's index of users", "", 1, HIGHER,
                           of_run=lambda each: jain(np.array(list(by_user(each.rows).values())))))  # fmt: skip
    return made


LATENCIES = (("ttft_s", "time to first token", "s", 1.0), ("tpot_s", "time per output token", "ms", 1e3),
             ("e2e_s", "end to end", "s", 1.0), ("queue_s", "in the queue", "s", 1.0),
             ("normalized_latency_s", "normalized", "ms/token", 1e3))  # fmt: skip
STATISTICS = ("mean", "p50", "p90", "p99")


def _latency(column: str, name: str, unit: str, factor: float, kind: str) -> Figure:
    if kind == "mean":
        return Figure(f"{column}_mean", f"{name}, mean", unit, factor, LOWER, lambda rows: _mean(rows[column]))
    percent = int(kind[1:])
    least = max(20, 100 // (100 - percent))  # one request beyond the percentile in each section
    return Figure(f"{column}_{kind}", f"{name}, {kind}", unit, factor, LOWER,
                  lambda rows: _percentile(rows[column], percent), None, least)  # fmt: skip


def _mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return float(known.mean()) if len(known) else NAN


def _percentile(values: np.ndarray, percent: int) -> float:
    known = values[~np.isnan(values)]
    return float(np.percentile(known, percent, method=METHOD)) if len(known) else NAN


def _rate(each: Measured, column: str | None) -> float:
    done = each.rows["status"] == FINISHED
    amount = int(done.sum()) if column is None else int(each.rows[column][done].sum())
    duration_s = each.duration_s()
    return amount / duration_s if duration_s > 0 else NAN


def _goodput(each: Measured) -> float:
    duration_s = each.duration_s()
    return float(each.rows["good"].sum()) / duration_s if duration_s > 0 else NAN


def _said(each: Measured, key: str) -> float:
    """As the run's own summary has it: of the whole run, or without the warm-up that it was told."""
    value = each.run.summary.get(key)
    return NAN if value is None else float(value)


def utilisation(steps: Table, start_s: float, end_s: float) -> float:
    """The share of a span of time in which a step was under way, the mean over the replicas; nan of no time."""
    if not end_s > start_s:
        return NAN
    busy = np.clip(steps["start_s"] + steps["duration_s"], start_s, end_s) - np.clip(steps["start_s"], start_s, end_s)
    return float(busy.sum()) / (end_s - start_s) / max(1, len(np.unique(steps["replica"])))
