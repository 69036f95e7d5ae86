"""Sarathi-Serve: the stall by hand, tiles, table 4, and the greatest load at equal tails against prompts first."""

from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.cli.errors import UserError
from twin.reproduce.experiment import Experiment
from twin.reproduce.own_trace import folder_of
from twin.reproduce.result import Figure, near
from twin.reproduce.running import simulate

if TYPE_CHECKING:
    from twin.notebook import Run

ALIKE = 0.3
P90 = 1.2815515655446004  # standard deviations of a normal variable
CLOSE = 1.03  # the capacity is found to this factor
# A decodes when B's prompt comes; a step takes 10 ms and 1 ms a token.
STALL: dict[str, list[Any]] = {"arrival_s": [0.0, 0.015], "prompt_tokens": [4, 20], "output_tokens": [8, 2]}
PROMPTS_FIRST, CHUNKED = {"policy": "prefill_first"}, {"policy": "sarathi"}


def run(experiment: Experiment) -> list[Figure]:
    values = experiment.values
    if len(values["rates"]) != 2 or values["rates"][0] >= values["rates"][1]:
        raise UserError(f"rates: {values['rates']} must be two, the lower one first")
    for name, (prompt, _, output, _, longest) in values["datasets"].items():
        if prompt + output > longest:  # half of all would be drawn again and again
            raise UserError(f"datasets: {name}: medians of {prompt} and {output} tokens are longer than {longest} together")
    return [*_stall(experiment), *_tiles(experiment), *_table_4(experiment), *_capacity(experiment)]


# --- by hand


def gap_and_first(simulated: "Run") -> tuple[float, float]:
    """The longest time between two tokens of the first request, and when the second has its first token, ms."""
    first, second = sorted({name for step in simulated.decisions or () for name in step["scheduled"]})
    ends_s = [step["end_s"] for step in simulated.decisions or () if first in step["outputs"]]
    gap_s = max(after - before for before, after in zip(ends_s, ends_s[1:], strict=False))
    first_s = next(step["end_s"] for step in simulated.decisions or () if second in step["outputs"])
    return round(gap_s * 1e3, 6), round(first_s * 1e3, 6)


def _stall(experiment: Experiment) -> list[Figure]:
    published = experiment.published
    server = {
        "system": "textbook",
        "model": "tiny",
        "latency": "linear",
        "latency.base_s": 0.01,
        "latency.per_prefill_token_s": 0.001,
        "latency.per_decode_token_s": 0.001,
        "cache.num_gpu_blocks": 64,
        "output.decisions": True,
    }
    with folder_of({"stall": STALL}) as play:
        alone = experiment._replace(options=server | play["stall"], jobs=1)
        variants = [
            PROMPTS_FIRST | {"scheduler.max_num_batched_tokens": 64, "scheduler.enable_chunked_prefill": False},
            CHUNKED | {"scheduler.max_num_batched_tokens": 8},
        ]
        before, after = simulate(alone, variants, gap_and_first)
    figures = []
    for what, at, way in (("stall", 0, after[0] < before[0]), ("first_token", 1, after[1] > before[1])):
        name = {"stall": "longest gap of who decodes", "first_token": "first token of the newcomer"}[what]
        for how, ours in (("prompts_first", before[at]), ("chunked", after[at])):
            told = published[f"{what}_ms"][how]
            label = f"by hand, {name}, {how.replace('_', ' ')}"
            figures.append(Figure(label, f"{told} ms", f"{ours:g} ms", way, near(ours, told, 1e-6)))
    return figures


def padded(tokens: int, tile: int) -> int:
    """Rows that are computed where they come in tiles of so many."""
    return ceil(tokens / tile) * tile


def _tiles(experiment: Experiment) -> list[Figure]:
    """What a chunk of 257 costs more than one of 256: by the roofline, and by the rows that tiles compute."""
    options = _of_model(experiment, "yi-34b") | {"system": "textbook", "trace": "synthetic", "trace.output_tokens": 1}
    options |= {"trace.arrivals": "burst()", "trace.num_requests": 1, "scheduler.max_num_batched_tokens": 512}
    seconds = simulate(experiment, [options | {"trace.prompt_tokens": tokens} for tokens in (256, 257)], first_token_s)
    more = seconds[1] / seconds[0] - 1
    told = experiment.published["tile"]
    tiles = ", ".join(f"{padded(257, tile) / padded(256, tile) - 1:+.0%}" for tile in (64, 128, 256))
    return [
        Figure("a chunk of 257 tokens over one of 256", f"{told:+.0%}", f"{more:+.1%}", more > 0, near(more, told, ALIKE)),
        Figure("rows computed in tiles of 64, 128, 256", "", tiles, None, None),
    ]


def first_token_s(simulated: "Run") -> float:
    return float(simulated.requests.ttft_s.iloc[0])


# --- the paper's loads


def requests_of(dataset: list[float], count: int, rate: float, seed: int = 0) -> dict[str, list[Any]]:
    """Lognormal lengths through median and P90; sums above the longest are drawn again; Poisson arrivals."""
    prompt_median, prompt_p90, output_median, output_p90, longest = dataset
    random = np.random.default_rng(seed)
    prompts: list[int] = []
    outputs: list[int] = []
    while len(prompts) < count:
        z = random.standard_normal(2)
        prompt = max(1, round(prompt_median * (prompt_p90 / prompt_median) ** (z[0] / P90)))
        output = max(1, round(output_median * (output_p90 / output_median) ** (z[1] / P90)))
        if prompt + output <= longest:
            prompts.append(prompt)
            outputs.append(output)
    arrivals_s = np.cumsum(random.exponential(1 / rate, count)).tolist()
    return {"arrival_s": arrivals_s, "prompt_tokens": prompts, "output_tokens": outputs}


def _of_model(experiment: Experiment, name: str) -> dict[str, Any]:
    shape = {f"model.{key}": value for key, value in experiment.values["models"][name].items()}
    return shape | {"parallel.tensor_parallel_size": experiment.values["gpus"][name]}


def median_and_tail(simulated: "Run") -> tuple[float, float]:
    """P50 TTFT and P99 of the time between tokens, seconds."""
    return float(simulated.summary["ttft_s_p50"]), float(simulated.summary["itl_s_p99"])


def _table_4(experiment: Experiment) -> list[Figure]:
    values, published = experiment.values, experiment.published["table_4"]
    rates, count = values["table_4_rates"], values["table_4_requests"]
    tables = {name: requests_of(values["datasets"][name], count, rates[name]) for name in published}
    with folder_of(tables) as play:
        variants = [
            _of_model(experiment, "yi-34b") | play[name] | CHUNKED | _limits(values["datasets"][name][-1], budget)
            for name in published
            for budget in (values["datasets"][name][-1], values["table_4_budget"])
        ]
        results = simulate(experiment, variants, median_and_tail)
    figures = []
    for index, (name, told) in enumerate(published.items()):
        hybrid, chunked = results[2 * index : 2 * index + 2]
        ways = (chunked[0] > hybrid[0], chunked[1] < hybrid[1])
        for at, what in enumerate(("P50 TTFT", "P99 TBT")):
            for how, ours in (("hybrid", hybrid[at]), ("chunked", chunked[at])):
                label = f"table 4, {name}, {what}, {'whole prompts' if how == 'hybrid' else 'chunks'}"
                size = near(ours, told[how][at], ALIKE)
                figures.append(Figure(label, f"{told[how][at]:.2f} s", f"{ours:.2f} s", ways[at], size))
    return figures


def _limits(longest: int, budget: int) -> dict[str, Any]:
    return {"system": "textbook", "model.max_model_len": longest, "scheduler.max_num_batched_tokens": budget}


def _capacity(experiment: Experiment) -> list[Figure]:
    values, told = experiment.values, experiment.published["gains"]
    dataset = values["datasets"]["sharegpt"]
    longest = dataset[-1]
    before = PROMPTS_FIRST | {
        "system": "vllm_v0",
        "scheduler.max_num_batched_tokens": longest,
        "model.max_model_len": longest,
    }
    after = CHUNKED | _limits(longest, values["budget"])
    settings = [(name, how) for name in told for how in (before, after)]
    shapes = [_of_model(experiment, name) | how for name, how in settings]
    limits_s = [values["tbt_s"][name] for name, _ in settings]
    found = greatest_rates(experiment, shapes, limits_s, dataset)
    figures = []
    for index, name in enumerate(told):
        vllm, sarathi = found[2 * index : 2 * index + 2]
        gain = sarathi / vllm
        what = f"capacity of {name} at P99 TBT {values['tbt_s'][name]:g} s, chunks / prompts first"
        ours = f"{gain:.1f} x ({sarathi:.2f} / {vllm:.2f} req/s)"
        figures.append(Figure(what, f"{told[name]:g} x", ours, gain > 1, near(gain, told[name], ALIKE)))
    return figures


def tail_and_delay(simulated: "Run") -> tuple[float, float]:
    """P99 of the time between tokens and the median scheduling delay, seconds."""
    return float(simulated.summary["itl_s_p99"]), float(simulated.summary["queue_s_p50"])


def greatest_rates(
    experiment: Experiment, settings: list[dict[str, Any]], tails_s: list[float], dataset: list[float]
) -> list[float]:
    """For each setting the greatest rate at which its tail and the delay keep their limits: bisected, all side by side."""
    values = experiment.values
    bounds = [list(values["rates"]) for _ in settings]
    while any(high / low > CLOSE for low, high in bounds):
        rates = [sqrt(low * high) for low, high in bounds]
        tables = {str(index): requests_of(dataset, values["requests"], rate) for index, rate in enumerate(rates)}
        with folder_of(tables) as play:
            measured = simulate(
                experiment, [setting | play[str(index)] for index, setting in enumerate(settings)], tail_and_delay
            )
        for ends, rate, limit_s, (tail_s, delay_s) in zip(bounds, rates, tails_s, measured, strict=True):
            ends[0 if tail_s <= limit_s and delay_s <= values["queue_s"] else 1] = rate
    return [low for low, _ in bounds]
