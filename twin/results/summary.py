"""The flat numbers of summary.json."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from twin.results.columns import STATUSES
from twin.results.memory import kv_usage
from twin.results.percentiles import METHOD, statistics
from twin.results.record import Record
from twin.results.saturation import saturation
from twin.results.slo import given, met, normalized_latency_s
from twin.results.window import Window, window

Summary = dict[str, Any]  # bool, int, float, str or None: what JSON can say; there is no nan in it


def summarize(
    record: Record, *, slo: Mapping[str, float | None] | None = None, warmup_s: float = 0.0, warmup_requests: int = 0
) -> Summary:
    """What happened, as flat keys; a number that is not defined is None.

    Latencies: a metric's statistics are those of its column in requests.parquet, nulls left out, `_n` of them (so TTFT
    speaks of every request that got a token, E2E of those that finished). Inter-token latency is per token, TPOT per
    request. Throughput counts finished requests and their tokens from first arrival to last completion. SLO attainment
    and goodput have all requests in their denominator. With a warm-up (seconds of arrival, or a number of requests)
    everything but `wall_s`, `itl_s` without stamps and `recompute_hit_tokens` speaks of the rest.
    Raises ValueError for an objective that does not exist and for a negative warm-up.
    """
    part = window(record, warmup_s, warmup_requests)
    requests = record.requests
    count = {name: int((requests["status"][part.measured] == name).sum()) for name in STATUSES}
    trend = saturation(record, part)
    memory = kv_usage(record, part)
    scheduling = _scheduling(record, part)
    ended = len(requests["status"]) - int((requests["status"] == "unfinished").sum())
    latencies: Summary = {}
    for name in ("ttft_s", "tpot_s"):
        latencies |= statistics(name, requests[name][part.measured])
    latencies |= statistics("itl_s", *_inter_token(record, part))
    for name in ("e2e_s", "queue_s"):
        latencies |= statistics(name, requests[name][part.measured])
    latencies |= statistics("normalized_latency_s", normalized_latency_s(record)[part.measured])
    keep_preemptions = scheduling.pop("keep_preemptions")  # not one of the promised keys: these come first
    sizes = {name: latencies.pop(name) for name in [*latencies] if name.endswith("_n")}
    summary = {
        "complete": record.complete,
        "requests": int(part.measured.sum()),
        **count,
        "duration_s": part.duration_s,
        **_throughput(record, part),
        **latencies,
        **_goodput(record, part, slo),
        "kv_usage_mean": memory["kv_usage_mean"],
        "kv_usage_peak": memory["kv_usage_peak"],
        "kv_waste_fraction": memory["kv_waste_fraction"],
        **scheduling,
        "saturated": trend.saturated,
        "steps": int(record.steps["repeat"][_inside(record, part)].sum()),
        "wall_s": record.wall_s,
        "simulated_requests_per_wall_s": ended / record.wall_s if record.wall_s > 0 else None,
        **sizes,
        "kv_resident_mean": memory["kv_resident_mean"],
        "recompute_tax": _recompute_tax(record, part, scheduling["recomputed_tokens"]),
        "recompute_hit_tokens": record.counters.get("recompute_hit_tokens", 0),
        "keep_preemptions": keep_preemptions,
        "swap_fallbacks": record.counters.get("swap_fallbacks", 0),
        "queue_slope_per_s": trend.slope,
        "queue_slope_error_per_s": trend.slope_error,
        "warmup_requests_excluded": int((~part.measured).sum()),
        "percentile_method": METHOD,
    }
    return {name: value if _is_defined(value) else None for name, value in summary.items()}


def _is_defined(value: Any) -> bool:
    """False for nan, and for infinity: sums of times beyond all floats."""
    return not isinstance(value, float) or math.isfinite(value)


def _throughput(record: Record, part: Window) -> Summary:
    finished = part.measured & (record.requests["status"] == "finished")
    output = int(record.requests["generated_tokens"][finished].sum())
    total = output + int(record.requests["prompt_tokens"][finished].sum())
    amounts = {"request": int(finished.sum()), "output_token": output, "total_token": total}
    return {f"{name}_throughput": _rate(amount, part.duration_s) for name, amount in amounts.items()}


def _goodput(record: Record, part: Window, slo: Mapping[str, float | None] | None) -> Summary:
    requests = int(part.measured.sum())
    if not given(slo) or not requests:
        return {"slo_attainment": None, "goodput": None}
    good = int(met(record, slo or {})[part.measured].sum())
    return {"slo_attainment": good / requests, "goodput": _rate(good, part.duration_s)}


def _rate(amount: int, duration_s: float) -> float | None:
    return amount / duration_s if duration_s > 0 else None


def _inter_token(record: Record, part: Window) -> tuple[np.ndarray, np.ndarray]:
    if not part.warm or record.itl_at_s is None:
        return record.itl_s, record.itl_count
    late = record.itl_at_s >= part.start_s
    return record.itl_s[late], record.itl_count[late]


def _inside(record: Record, part: Window) -> np.ndarray:
    """The rows of steps that are not of the warm-up."""
    if not part.warm:
        return np.ones(len(record.steps["step"]), dtype=bool)
    return record.steps["start_s"] >= part.start_s


def _scheduling(record: Record, part: Window) -> Summary:
    """What the scheduler did: as it counted itself, or, after a warm-up, as the measured requests' rows say.

    A hit is counted once, at a request's first admission, over the tokens of its prompt (cases pc-07, pc-08).
    `batch_size_mean` is weighted by steps, not by time: the sequences of a mean step that computes anything.
    """
    requests, counters, steps = record.requests, record.counters, record.steps
    column = {name: int(requests[name][part.measured].sum())
              for name in ("preemptions", "swap_outs", "recomputed_tokens")}  # fmt: skip
    queries, hits = counters.get("prefix_cache_queries", 0), counters.get("prefix_cache_hits", 0)
    inside = _inside(record, part)
    told_apart = True
    if part.warm:
        preemptions, swaps, recomputed = column["preemptions"], column["swap_outs"], column["recomputed_tokens"]
        keeps = counters.get("keep_preemptions", 0)
        told_apart = not keeps  # a request's row does not tell who was kept
        admitted = part.measured & ~np.isnan(requests["first_scheduled_s"])
        hits = int(requests["cached_tokens"][admitted].sum())
        queries = int(requests["prompt_tokens"][admitted].sum()) if queries else 0
    else:
        preemptions = counters.get("preemptions", column["preemptions"])
        swaps = counters.get("swap_preemptions", column["swap_outs"])
        keeps = counters.get("keep_preemptions", 0)
        recomputed = counters.get("recomputed_tokens", column["recomputed_tokens"])
    busy = steps["repeat"] * (inside & (steps["sequences"] > 0))
    waiting = int(steps["waiting"][inside].max(initial=0))
    return {
        "batch_size_mean": float(steps["sequences"] @ busy) / int(busy.sum()) if busy.any() else None,
        "preemptions": preemptions,
        "recompute_preemptions": preemptions - swaps - keeps if told_apart else None,
        "swap_preemptions": swaps if told_apart else None,
        "recomputed_tokens": recomputed,
        "prefix_cache_hit_rate": hits / queries if queries else None,
        "max_waiting": waiting if part.warm else max(waiting, counters.get("max_waiting", 0)),
        "keep_preemptions": keeps if told_apart else None,
    }


def _recompute_tax(record: Record, part: Window, recomputed: int) -> float | None:
    """Tokens computed again over all tokens computed (case pri-06; vllm-project/vllm#54644)."""
    steps = record.steps
    each = (steps["prefill_tokens"] + steps["decode_tokens"]) * steps["repeat"]
    computed = int(each[_inside(record, part)].sum())
    return recomputed / computed if computed else None
