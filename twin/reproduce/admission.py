"""Requests a second by rule of admission and size of the pool; and goodput of the past-future rule against the others."""

from typing import Any

from twin.reproduce.experiment import Experiment
from twin.reproduce.result import Figure, near
from twin.reproduce.running import simulate, summary_of

EQUAL, ALIKE = 0.02, 0.3
RULES: dict[str, dict[str, Any]] = {
    "whatever fits": {"policy.admission": "max_util"},
    "watermark of 5 %": {"policy.admission": "watermark(share=0.05)"},
    "to completion": {"policy.admission": "no_evict(by=prediction)", "predictor": "oracle"},
    "past-future": {"policy.admission": "past_future"},
    "the longest possible": {"policy.admission": "no_evict(by=max_tokens)"},
}
AGGRESSIVE, RESERVING, PAST_FUTURE, CAUTIOUS = "whatever fits", "to completion", "past-future", "the longest possible"


def run(experiment: Experiment) -> list[Figure]:
    values, published = experiment.values, experiment.published
    shared = {
        "policy": "fcfs",
        "trace.arrivals": f"closed({values['clients']},think=0)",
        "trace.num_requests": values["requests"],
        "warmup_requests": values["requests"] // 7,
        "slo.ttft_s": values["ttft_s"],
    }
    pools = values["pools"]
    variants = [shared | rule | {"cache.num_gpu_blocks": pool} for pool in pools for rule in RULES.values()]
    summaries = iter(simulate(experiment, variants, summary_of))
    by_pool = [{name: next(summaries) for name in RULES} for _ in pools]
    figures = [_off_pressure(pools[0], by_pool[0])]
    for pool, results in zip(pools[1:], by_pool[1:], strict=True):
        judged = pool == pools[-1]
        figures += _under_pressure(pool, results, published["under_pressure"] if judged else None)
    return [*figures, *_goodput(pools, by_pool, published["goodput"])]


def _off_pressure(pool: int, results: dict[str, dict[str, Any]]) -> Figure:
    """Of the rules that know, or need not know, how long an answer is."""
    rates = [summary["request_throughput"] for name, summary in results.items() if name != CAUTIOUS]
    apart = max(rates) / min(rates) - 1
    what = f"{pool} blocks: requests/s, fastest over slowest rule"
    return Figure(what, "equal", f"{apart:+.1%}", None, apart <= EQUAL)


def _under_pressure(pool: int, results: dict[str, dict[str, Any]], published: float | None) -> list[Figure]:
    fits = results[AGGRESSIVE]
    figures = []
    for name, summary in results.items():
        if name == AGGRESSIVE:
            continue
        change = summary["request_throughput"] / fits["request_throughput"] - 1
        counted = published is not None and name == RESERVING
        told = f"{published:+.0%}" if counted and published is not None else ""
        figures.append(
            Figure(
                f"{pool} blocks: requests/s, {name} over {AGGRESSIVE}",
                told,
                f"{change:+.0%}",
                change < 0 if counted else None,
                near(change, published, ALIKE) if counted and published is not None else None,
            )
        )
    preemptions = ", ".join(
        f"{name} {summary['preemptions']:,}" for name, summary in results.items() if summary["preemptions"]
    )
    return [*figures, Figure(f"{pool} blocks: preemptions", "", preemptions or "none", None, None)]


def _goodput(pools: list[int], by_pool: list[dict[str, dict[str, Any]]], published: list[float]) -> list[Figure]:
    """Requests/s that had their first token in time, at each pool; no size, for load and answers published are not these."""
    figures = []
    told = f"up to {published[0]:g} to {published[1]:g} x"
    for other in (CAUTIOUS, AGGRESSIVE):
        pairs = [(results[PAST_FUTURE]["goodput"], results[other]["goodput"]) for results in by_pool]
        ours = ", ".join(f"{pool}: {mine:.2f} / {theirs:.2f}" for pool, (mine, theirs) in zip(pools, pairs, strict=True))
        more = any(mine > theirs for mine, theirs in pairs)
        figures.append(Figure(f"goodput in req/s, past-future / {other}, by blocks", told, ours, more, None))
    return figures
