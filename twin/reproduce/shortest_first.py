"""What shortest first gains over first come, first served: in M/M/1 by load, in SSJF's simulator, against Orca."""

from typing import TYPE_CHECKING, Any

import numpy as np

from twin.reproduce.experiment import Experiment
from twin.reproduce.own_trace import folder_of
from twin.reproduce.result import Figure, near, within
from twin.reproduce.running import simulate

if TYPE_CHECKING:
    from twin.notebook import Run

CLOSED_FORM, RANGE = 0.1, 0.2  # what counts as alike
STEP_S = 0.01
JOB_S, TOKEN_S = 0.1, 0.02  # of SSJF's simulator


def run(experiment: Experiment) -> list[Figure]:
    return [*_one_server(experiment), *_ssjf(experiment), *_fastserve(experiment)]


def mean_time_s(simulated: "Run") -> float:
    """In the system, of all but the first tenth."""
    e2e_s = simulated.requests.e2e_s
    return float(e2e_s[len(e2e_s) // 10 :].mean())


def _one_server(experiment: Experiment) -> list[Figure]:
    values, published = experiment.values, experiment.published
    server = {
        "system": "textbook",
        "latency": "linear",
        "latency.base_s": STEP_S,
        "scheduler.max_num_seqs": 1,
        "scheduler.max_num_batched_tokens": 100_000,
        "trace": "synthetic",
        "trace.prompt_tokens": 1,
        "trace.output_tokens": f"geometric({values['mean_output_tokens']})",
        "trace.num_requests": values["requests"],
    }
    policies = [{"policy": "fcfs"}, {"policy": "srpt", "predictor": "oracle"}]
    rates = [load / (values["mean_output_tokens"] * STEP_S) for load in published["loads"]]
    variants = [server | policy | {"trace.arrivals": f"poisson({rate})"} for rate in rates for policy in policies]
    times_s = simulate(experiment, variants, mean_time_s)
    figures, before = [], 1.0
    for load, gain, fcfs_s, srpt_s in zip(published["loads"], published["gains"], times_s[::2], times_s[1::2], strict=True):
        ours = fcfs_s / srpt_s
        what = f"M/M/1 at load {load:g}: mean time, fcfs / srpt"
        figures.append(Figure(what, f"{gain:g} x", f"{ours:.2f} x", ours > before, near(ours, gain, CLOSED_FORM)))
        before = ours
    return figures


def finished(simulated: "Run") -> tuple[float, list[float]]:
    """Mean job completion time, and the times at which jobs were done, in order."""
    table = simulated.requests
    return float(table.e2e_s.mean()), sorted(table.finish_s.tolist())


def _ssjf(experiment: Experiment) -> list[Figure]:
    values, published = experiment.values, experiment.published
    server = {
        "system": "textbook",
        "latency": "linear",
        "latency.base_s": TOKEN_S,
        "latency.mixed_s": JOB_S,
        "scheduler.max_num_seqs": 1,
    }
    policies: dict[str, dict[str, Any]] = {
        "fcfs": {"policy": "fcfs"},
        "ssjf": {"policy": "sjf", "predictor": "noisy", "predictor.kind": "rank", "predictor.tau": values["tau"]},
        "sjf": {"policy": "sjf", "predictor": "oracle"},
    }
    tables = {
        f"{rate}_{seed}": jobs(experiment, rate, seed) for rate in values["rates"] for seed in range(values["repeats"])
    }
    with folder_of(tables) as play:
        variants = [server | policy | play[name] for policy in policies.values() for name in tables]
        results = simulate(experiment, variants, finished)
    place = int(values["first_finished"] * (values["jobs_a_run"] - 1))
    means_s, throughputs = {}, {}
    for index, name in enumerate(policies):
        mine = results[index * len(tables) : (index + 1) * len(tables)]
        means_s[name] = float(np.mean([mean_s for mean_s, _ in mine]))
        throughputs[name] = float(np.mean([place / done_s[place] for _, done_s in mine]))
    figures = []
    for name, what in (("ssjf", f"predictions of rank correlation {values['tau']:g}"), ("sjf", "lengths known")):
        less = 1 - means_s[name] / means_s["fcfs"]
        times = throughputs[name] / throughputs["fcfs"]
        judged = name == "ssjf"
        figures += [
            Figure(
                f"job completion time, {what}",
                _range([-100 * each for each in published["ssjf_less"]], " %", 1),
                f"{-100 * less:.1f} %",
                less > 0,
                within(less, published["ssjf_less"], RANGE) if judged else None,
            ),
            Figure(
                f"throughput until a quarter is done, {what}",
                _range(published["ssjf_throughput"], " x", 1),
                f"{times:.1f} x",
                times > 1,
                within(times, published["ssjf_throughput"], RANGE) if judged else None,
            ),
        ]
    last_s = np.array([done_s[-1] for _, done_s in results]).reshape(len(policies), -1).mean(axis=1)
    all_done = Figure("throughput until all are done, the same", "", f"{last_s[0] / last_s[1]:.2f} x", None, None)
    return [*figures, all_done]


def _range(ends: list[float], unit: str, digits: int) -> str:
    return f"{ends[0]:.{digits}f} to {ends[1]:.{digits}f}{unit}"


def jobs(experiment: Experiment, rate: float, seed: int) -> dict[str, list[Any]]:
    """So many jobs, all that come in a second at its beginning, as in SSJF's simulator; lengths by their quantiles."""
    values = experiment.values
    random = np.random.default_rng([seed, int(1000 * rate)])
    count = values["jobs_a_run"]
    counts = random.poisson(rate, 100 * count)
    arrival_s = np.repeat(np.arange(len(counts)), counts)[:count]
    quantiles = np.asarray(values["length_quantiles"], float)
    lengths = np.interp(random.random(count), np.linspace(0, 1, len(quantiles)), quantiles).round().astype(int)
    return {"arrival_s": arrival_s.tolist(), "prompt_tokens": [1] * count, "output_tokens": lengths.tolist()}


def _fastserve(experiment: Experiment) -> list[Figure]:
    values, published = experiment.values, experiment.published
    server = {
        "model": "opt-13b",
        "gpu": "a100-40g",
        "latency": "roofline",
        "system": "textbook",
        "trace": "chat",
        "trace.max_prompt_tokens": 1024,
        "trace.num_requests": values["fastserve_requests"],
        "scheduler.max_num_batched_tokens": 2048,
        "cache.swap_space_gib": 200,
        "swap.bandwidth_gib_s": 25,
    }
    policies = [{"policy": "orca"}, {"policy": "mlfq", "policy.preemption_mode": "swap"}, {"policy": "fcfs"}]
    variants = [server | policy | {"trace.rate": rate} for rate in values["fastserve_rates"] for policy in policies]
    times_s = np.array(simulate(experiment, variants, mean_time_s)).reshape(-1, len(policies))
    ratios = times_s[:, 0] / times_s[:, 1]
    rates = ", ".join(f"{ratio:.1f} at {rate:g}/s" for rate, ratio in zip(values["fastserve_rates"], ratios, strict=True))
    by_order = ", ".join(f"{each:.1f}" for each in times_s[:, 2] / times_s[:, 1])
    published_x = f"up to {published['fastserve']:g} x"
    return [
        Figure("mean time, Orca / FastServe's queues", published_x, rates, bool((ratios > 1).all()), None),
        Figure("of that by the order: paged fcfs / FastServe's queues", "", by_order, None, None),
    ]
