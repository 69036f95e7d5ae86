"""Throughput grows with the batch by less than its size, and a token takes longer: slowly up to the knee, then linearly."""

from typing import TYPE_CHECKING, Any

from twin.cli.errors import UserError
from twin.reproduce.experiment import Experiment
from twin.reproduce.result import Figure, near
from twin.reproduce.running import simulate

if TYPE_CHECKING:
    from twin.notebook import Run

SERVED, RATIO = 0.1, 0.2  # what counts as alike
FLAT, STEEP = 1.5, 0.75  # a step below the knee over that of one sequence, and its growth beyond over the batch's, at least
QWEN3_8B = {  # config.json of Qwen/Qwen3-8B, on the shape of a model that ships
    "model": "llama3.1-8b",
    "model.layers": 36,
    "model.intermediate": 12288,
    "model.vocab": 151936,
    "model.max_position": 40960,
}
SPLITWISE = {"model": "llama2-70b", "parallel.tensor_parallel_size": 4, "system": "textbook"}
H100_FLOPS, H100_BYTES_PER_S = 989.5e12, 3350e9  # by its data sheet
COMPUTE, MEMORY = 0.75, 0.85  # what of that the roofline takes to be reached
PROMPT, OUTPUT, BATCH = 512, 128, 64  # of Splitwise's measurements


def run(experiment: Experiment) -> list[Figure]:
    return [*_gpustack(experiment), *_splitwise(experiment), *_knee(experiment)]


def rate_and_tpot(simulated: "Run") -> tuple[float, float]:
    """Output tokens/s, and the mean time of one but the first, seconds."""
    return float(simulated.summary["output_token_throughput"]), float(simulated.summary["tpot_s_mean"])


def knee(flops: float, bytes_per_s: float, weight_bytes: float) -> float:
    """Sequences at which a decode step computes as long as it reads weights: 2 B P / flops = P b / bandwidth."""
    return flops * weight_bytes / (2 * bytes_per_s)


def at_once(batch: int, prompt_tokens: int, output_tokens: int) -> dict[str, Any]:
    """A batch whose prompts are computed in one step."""
    return {
        "trace.arrivals": "burst()",
        "trace.num_requests": batch,
        "trace.prompt_tokens": prompt_tokens,
        "trace.output_tokens": output_tokens,
        "scheduler.max_num_seqs": batch,
        "scheduler.max_num_batched_tokens": max(2048, batch * prompt_tokens),
    }


def _gpustack(experiment: Experiment) -> list[Figure]:
    values, published = experiment.values, experiment.published
    load = {f"trace.{key}": values[key] for key in ("prompt_tokens", "output_tokens")}
    load |= {"trace.num_requests": values["requests"], "gpu": "h100"}
    clients = published["clients"]
    variants = [QWEN3_8B | load | {"trace.arrivals": f"closed({count},think=0)"} for count in clients]
    measured = simulate(experiment, variants, rate_and_tpot)
    figures = []
    rates, tpots_s = map(list, zip(*measured, strict=True))
    grows, slows = _grows(rates, clients, sublinear=True), _grows(tpots_s, clients)
    for count, rate, tpot_s, told, told_ms in zip(
        clients, rates, tpots_s, published["tokens_per_s"], published["tpot_ms"], strict=True
    ):
        size, size_ms = near(rate, told, SERVED), near(tpot_s * 1e3, told_ms, SERVED)
        figures.append(Figure(f"{count} clients: output", f"{told:.0f} tokens/s", f"{rate:.0f} tokens/s", grows, size))
        figures.append(Figure(f"{count} clients: TPOT", f"{told_ms:g} ms", f"{tpot_s * 1e3:.2f} ms", slows, size_ms))
    return figures


def _grows(values: list[float], batches: list[int], sublinear: bool = False) -> bool:
    """From batch to batch; and where that is asked by less than the batch."""
    pairs = list(zip(values, values[1:], strict=False))
    at_most = [after / before for before, after in zip(batches, batches[1:], strict=False)]
    up = all(earlier <= later for earlier, later in pairs)
    return up and not (
        sublinear and any(later / earlier >= most for (earlier, later), most in zip(pairs, at_most, strict=True))
    )


def _splitwise(experiment: Experiment) -> list[Figure]:
    published = experiment.published["splitwise"]
    variants = [SPLITWISE | {"gpu": gpu} | at_once(batch, PROMPT, OUTPUT) for gpu in published for batch in (1, BATCH)]
    measured = simulate(experiment, variants, rate_and_tpot)
    figures = []
    for index, (gpu, told) in enumerate(published.items()):
        (_, alone_s), (_, together_s) = measured[2 * index : 2 * index + 2]
        ours = together_s / alone_s
        what = f"time between tokens, batch of {BATCH} over 1, 4 x {gpu}"
        figures.append(Figure(what, f"{told:g} x", f"{ours:.2f} x", ours > 1, near(ours, told, RATIO)))
    return figures


def _knee(experiment: Experiment) -> list[Figure]:
    """Llama-3.1-8B on an H100, short contexts: below the knee a step is the reading of weights, above it arithmetic."""
    batches = experiment.values["batches"]
    at = knee(H100_FLOPS * COMPUTE, H100_BYTES_PER_S * MEMORY, 2)
    if len(batches) < 3 or batches != sorted(set(batches)) or not batches[0] < at < batches[-2]:
        raise UserError(f"batches: {batches} must grow, from one below the knee at {at:.0f} to two beyond it")
    variants = [{"gpu": "h100", "model": "llama3.1-8b", "system": "textbook"} | at_once(batch, 1, 17) for batch in batches]
    measured = simulate(experiment, variants, rate_and_tpot)
    rates, tpots_s = map(list, zip(*measured, strict=True))
    below = [index for index, batch in enumerate(batches) if batch < at][-1]
    flat = tpots_s[below] / tpots_s[0]
    steep = (tpots_s[-1] / tpots_s[-2]) / (batches[-1] / batches[-2])
    curve = ", ".join(f"{batch}: {1e3 * tpot_s:.1f}" for batch, tpot_s in zip(batches, tpots_s, strict=True))
    most = f"{rates[-1] / rates[0]:.0f} x at {batches[-1]}"
    sublinear = _grows(rates, batches, sublinear=True)
    last = f"{batches[-2]} to {batches[-1]}, beyond it: of the batch's growth"
    return [
        Figure(f"ms a token by batch, knee at {at:.0f}", "flat, then linear", curve, _grows(tpots_s, batches), None),
        Figure(f"batch of {batches[below]} over 1, below the knee", "little", f"{flat:.2f} x", flat < FLAT, None),
        Figure(last, "most", f"{steep:.2f}", steep > STEEP, None),
        Figure("throughput grows by less than the batch", "sublinear", most, sublinear, None),
    ]
