"""A prefix that all prompts share: paging with its blocks kept once, against Orca (Oracle), which computes it for each."""

from typing import TYPE_CHECKING, Any

from twin.reproduce.experiment import Experiment
from twin.reproduce.result import Figure, near
from twin.reproduce.running import simulate

if TYPE_CHECKING:
    from twin.notebook import Run

BLOCK_SIZE = 16
ALIKE = 0.25


def run(experiment: Experiment) -> list[Figure]:
    """Throughput where the queue never empties: shared over Orca, as published, and over paging that shares nothing."""
    published = experiment.published["speedup"]
    all_servers = [server for tokens in published for server in servers(experiment, tokens)]
    rates = iter(simulate(experiment, all_servers, throughput))
    figures, before = [], 1.0
    for tokens, theirs in published.items():
        shared, apart, orca = next(rates), next(rates), next(rates)
        over_orca, over_paging = shared / orca, shared / apart
        what = f"prefix of {tokens}: throughput over"
        ours, without = f"{over_orca:.2f}x ({shared:.1f}, {orca:.1f} req/s)", f"{over_paging:.2f}x ({apart:.1f} req/s)"
        grows, alike = over_orca > before, near(over_orca, theirs, ALIKE)
        figures.append(Figure(f"{what} Orca (Oracle)", f"{theirs:.2f}x", ours, grows, alike))
        figures.append(Figure(f"{what} paging that shares nothing", "", without, None, None))
        before = over_orca
    return figures


def servers(experiment: Experiment, prefix_tokens: int) -> list[dict[str, Any]]:
    """Paging that shares, paging that does not, Orca; for prompts with such a prefix."""
    slots, values = experiment.values["slots"], experiment.values
    load = {
        "trace.prefix_tokens": prefix_tokens,
        "trace.num_requests": values["requests"],
        "trace.rate": values["rate"],
    }
    paged = {**load, "cache.block_size": BLOCK_SIZE, "cache.num_gpu_blocks": slots // BLOCK_SIZE}
    orca = {**load, "policy": "orca", "policy.reserve": "oracle", "policy.buddy": True, "predictor": "oracle"}
    orca |= {"cache.allocator": "contiguous", "cache.block_size": 1, "cache.num_gpu_blocks": slots}
    return [{**paged, "cache.enable_prefix_caching": True}, paged, orca]


def throughput(run: "Run") -> float:
    """Requests/s from the first arrival to the last completion."""
    return float(run.summary["request_throughput"])
