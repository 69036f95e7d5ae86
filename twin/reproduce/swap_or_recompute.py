"""A preempted request's KV: moved to the host and back, or computed again, over block sizes.

What one preemption costs is arithmetic: the bytes of its blocks over the link, twice, and a cost a copy, against a step that
computes its tokens, which in vLLM V0 computes nothing else. What that does to requests under memory pressure is simulated.
"""

from typing import Any, NamedTuple

from twin.cli.compose import compose
from twin.cli.job import build
from twin.core.batch import Features
from twin.core.limits import blocks_for
from twin.notebook.options import words_from
from twin.reproduce.experiment import Experiment
from twin.reproduce.result import Figure
from twin.reproduce.running import simulate
from twin.reproduce.sustained import normalized_latency_s

MODES = ("swap", "recompute")


class Pair(NamedTuple):
    """The same for both ways, in seconds."""

    swap_s: float
    recompute_s: float

    @property
    def ratio(self) -> float:
        """Recomputing over swapping."""
        return self.recompute_s / self.swap_s


def run(experiment: Experiment) -> list[Figure]:
    """One preemption, then requests under memory pressure."""
    return [*one_preemption(experiment), *requests(experiment)]


def one_preemption(experiment: Experiment) -> list[Figure]:
    """Seconds to bring back one request: what the paper says of figure 19 (a)."""
    costs = {size: cost_of(experiment, size) for size in experiment.values["block_sizes"]}
    constant = len({cost.recompute_s for cost in costs.values()}) == 1
    most, bound = max(cost.ratio for cost in costs.values()), experiment.published["most_over_swap"]
    return [
        *_both_ways("one preemption", costs, experiment, "ms", 1e3),
        Figure(
            "one preemption, recomputing",
            "hangs on no block size",
            "the same for all" if constant else "varies",
            constant,
            None,
        ),
        Figure(
            "one preemption, recomputing over swapping",
            f"at most {bound:g}x",
            f"at most {most:.2f}x",
            most > 1,
            most <= bound,
        ),
    ]


def cost_of(experiment: Experiment, block_size: int) -> Pair:
    """Of a request of `tokens`, by the model, the link and the step times of the simulations."""
    words = words_from({**experiment.options, **_server(experiment, block_size, "swap"), "trace.num_requests": 1}, {})
    setup, tokens = build(compose(words), "").setup, experiment.values["tokens"]
    prefill = Features(1, tokens, 0, tokens, tokens, tokens * tokens / 2, 1)
    return Pair(2 * setup.swap.seconds(blocks_for(tokens, block_size)), setup.latency.expected().step_s(prefill))


def requests(experiment: Experiment) -> list[Figure]:
    """Normalized latency, figure 19 (b)."""
    values = experiment.values
    sizes = values["block_sizes"]
    load = {"trace.num_requests": values["requests"], "trace.rate": values["rate"]}
    variants = [{**_server(experiment, size, mode), **load} for size in sizes for mode in MODES]
    measured = iter(simulate(experiment, variants, normalized_latency_s))
    latencies = {size: Pair(next(measured), next(measured)) for size in sizes}
    figures = _both_ways("latency", latencies, experiment, "ms a token", 1e3)
    alike = experiment.published["comparable"]
    for size in (size for size in sizes if alike[0] <= size <= alike[1]):
        ratio, bound = latencies[size].ratio, values["comparable_within"]
        figures.append(
            Figure(
                f"latency, blocks of {size}, recomputing over swapping",
                "comparable",
                f"{ratio:.2f}x",
                None,
                1 / bound <= ratio <= bound,
            )
        )
    return figures


def _server(experiment: Experiment, block_size: int, mode: str) -> dict[str, Any]:
    blocks = experiment.values["slots"] // block_size
    return {"cache.block_size": block_size, "cache.num_gpu_blocks": blocks, "policy.preemption_mode": mode}


def _both_ways(what: str, pairs: dict[int, Pair], experiment: Experiment, unit: str, scale: float) -> list[Figure]:
    """A figure a block size; at both ends of the sizes the paper says which way is the better one."""
    smallest, largest = min(pairs), max(pairs)
    better = {smallest: "recompute", largest: "swap"}
    return [
        Figure(
            f"{what}, blocks of {size}: swap, recompute",
            f"{better[size]} better" if size in better else "",
            f"{pair.swap_s * scale:.1f}, {pair.recompute_s * scale:.1f} {unit}",
            (pair.ratio < 1) == (better[size] == "recompute") if size in better else None,
            None,
        )
        for size, pair in pairs.items()
    ]
