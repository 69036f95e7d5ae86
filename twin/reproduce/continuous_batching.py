"""Static batches, of the longest request of all or of their own, against continuous batching with and without paging."""

from collections.abc import Mapping
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
# A and B start together in two seats, 50 ms a step: A has 4 tokens, B one. C has one, and comes when B has just ended.
LATE = {"arrival_s": (0.0, 0.0, 0.05), "prompt_tokens": (1, 1, 1), "output_tokens": (4, 1, 1)}
STEP_S = 0.05
BLOCK_TOKENS = 16


def run(experiment: Experiment) -> list[Figure]:
    return [*_late_request(experiment), *_throughput(experiment)]


def duration_of(simulated: "Run") -> float:
    """Seconds from the first arrival to the last token."""
    return float(simulated.summary["duration_s"])


def late_latency_s(simulated: "Run") -> float:
    """From arrival to last token of the request that came last."""
    return float(simulated.requests["e2e_s"].iloc[-1])


def draw_outputs(values: Mapping[str, Any], seed: int) -> np.ndarray:
    """Exponential lengths, rounded; those above `longest` are drawn again (`capped_exponential`); at least one."""
    if values["mean_output_tokens"] > 100 * values["longest"]:  # nearly all would be drawn again and again
        raise UserError(f"longest: {values['longest']} tokens are next to none of a mean of {values['mean_output_tokens']}")
    random = np.random.default_rng(seed)
    outputs = np.empty(0, dtype=int)
    while len(outputs) < values["requests"]:
        drawn = np.round(random.exponential(values["mean_output_tokens"], values["requests"])).astype(int)
        outputs = np.concatenate([outputs, drawn[drawn <= values["longest"]]])
    return np.maximum(outputs[: values["requests"]], 1)


def _late_request(experiment: Experiment) -> list[Figure]:
    textbook = {
        "system": "textbook",
        "model": "tiny",
        "model.max_model_len": 16,
        "latency": "linear",
        "latency.base_s": STEP_S,
        "cache.num_gpu_blocks": 8,
        "scheduler.max_num_seqs": 2,
    }
    with folder_of({"late": LATE}) as play:
        alone = experiment._replace(options={**textbook, **play["late"]}, jobs=1)
        static_s, continuous_s = simulate(alone, [{"policy": "static"}, {"policy": "fcfs"}], late_latency_s)
    return [
        _late("static", experiment.published["late_static_ms"], static_s, static_s > continuous_s),
        _late("continuous", experiment.published["late_continuous_ms"], continuous_s, static_s > continuous_s),
    ]


def _late(how: str, published_ms: float, ours_s: float, direction: bool) -> Figure:
    exact = near(ours_s * 1e3, published_ms, 1e-9)
    return Figure(f"late short request, {how} batching", f"{published_ms:g} ms", f"{ours_s * 1e3:g} ms", direction, exact)


def _throughput(experiment: Experiment) -> list[Figure]:
    values, published = experiment.values, experiment.published
    systems = _systems(values)
    traces = {}
    for seed in range(values["seeds"]):
        outputs = draw_outputs(values, seed)
        table = {"arrival_s": [0.0] * len(outputs), "prompt_tokens": [values["prompt_tokens"]] * len(outputs)}
        traces[f"asked{seed}"] = {**table, "output_tokens": outputs.tolist()}
        traces[f"padded{seed}"] = {**table, "output_tokens": [int(outputs.max())] * len(outputs)}
    with folder_of(traces) as play:
        variants = [
            options | play[("padded" if name == "naive" else "asked") + str(seed)]
            for seed in range(values["seeds"])
            for name, options in systems.items()
        ]
        seconds = np.array(simulate(experiment, variants, duration_of)).reshape(values["seeds"], len(systems))
    ratios = dict(zip(systems, (seconds[:, :1] / seconds).mean(axis=0).tolist(), strict=True))
    names = {
        "static": "static, to the end of its own batch / naive",
        "reserved": "continuous, answers reserved / naive",
        "paged": "continuous and paged / naive",
    }
    before, figures = 1.0, []
    for name, what in names.items():
        ours = ratios[name]
        size = near(ours, published[name], ALIKE)
        figures.append(Figure(f"throughput, {what}", f"{published[name]:g} x", f"{ours:.1f} x", ours > before, size))
        before = ours
    seats = f"continuous and paged, no more than {values['batch_size']} seats / naive"
    return [*figures, Figure(f"throughput, {seats}", f"{published['reserved']:g} x", f"{ratios['seats']:.1f} x", None, None)]


def _systems(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The systems of the benchmark, and the last with the seats of the first.

    Static ones set aside what a batch of the longest requests needs.
    """
    longest = values["prompt_tokens"] + values["longest"]
    static = {"policy": "static", "scheduler.max_num_seqs": values["batch_size"], "model.max_model_len": longest}
    static["scheduler.max_num_batched_tokens"] = max(longest, values["batch_size"] * values["prompt_tokens"])
    return {
        "naive": static,
        "static": static,
        "reserved": {
            "policy.admission": "no_evict(by=prediction)",
            "predictor": "oracle",
            "cache.num_gpu_blocks": values["reserved_tokens"] // BLOCK_TOKENS,
            "scheduler.max_num_batched_tokens": values["reserved_tokens"],
        },
        "paged": {"scheduler.max_num_batched_tokens": values["reserved_tokens"]},
        "seats": {
            "scheduler.max_num_seqs": values["batch_size"],
            "scheduler.max_num_batched_tokens": values["reserved_tokens"],
        },
    }
