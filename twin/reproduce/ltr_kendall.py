"""Shortest first by a ranking of known quality: Kendall's tau from 0 (no idea) to 1 (an oracle)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.reproduce.experiment import Experiment
from twin.reproduce.own_trace import folder_of
from twin.reproduce.result import Figure, near
from twin.reproduce.running import simulate

if TYPE_CHECKING:
    from twin.notebook import Run

ALIKE = 0.3
ROUNDING = 0.005
# Figure 1 of the paper: no prefill, a second a token, one at a time, all there at the start.
BLOCKED = {"arrival_s": [0, 0, 0], "prompt_tokens": [1, 1, 1], "output_tokens": [10, 2, 1]}
MOST_PROMPT_TOKENS = 4096
WOBBLE = 1.05  # a latency may be so much above that of a poorer ranking


def run(experiment: Experiment) -> list[Figure]:
    return [*_figure_1(experiment), *_chat(experiment), *_data(experiment)]


def latency_a_token_s(simulated: "Run") -> float:
    """Mean of end-to-end time over output tokens, seconds."""
    return float((simulated.requests.e2e_s / simulated.requests.generated_tokens).mean())


def ends_s(simulated: "Run") -> list[float]:
    """When requests ended, in order."""
    return sorted(simulated.requests.finish_s.tolist())


def ranked(tau: float) -> dict[str, Any]:
    return {"policy": "ltr", "predictor": "noisy", "predictor.kind": "rank", "predictor.tau": tau}


def _figure_1(experiment: Experiment) -> list[Figure]:
    server = {"system": "textbook", "latency": "linear", "latency.base_s": 1, "scheduler.max_num_seqs": 1, "model": "tiny"}
    with folder_of({"blocked": BLOCKED}) as play:
        alone = experiment._replace(options=server | play["blocked"], jobs=1)
        variants = [{"policy": "fcfs"}, {"policy": "ltr", "predictor": "oracle"}]
        fcfs_s, shortest_s = simulate(alone, variants, latency_a_token_s)
    figures = []
    for what, ours in (("fcfs", fcfs_s), ("shortest", shortest_s)):
        published = experiment.published[f"{what}_s_a_token"]
        size = abs(ours - published) < ROUNDING
        figures.append(
            Figure(f"figure 1, {what} first", f"{published:g} s/token", f"{ours:.2f} s/token", fcfs_s > shortest_s, size)
        )
    return figures


def _chat(experiment: Experiment) -> list[Figure]:
    values, published = experiment.values, experiment.published
    orders = [{"policy": "fcfs"}, ranked(values["tau"]), *(ranked(tau) for tau in values["taus"])]
    tables = {f"{rate}": requests_of(values, int(rate * values["duration_s"]), rate) for rate in values["rates"]}
    with folder_of(tables) as play:
        loads = list(play.values())
        variants = [load | orders[at] for load in loads for at in (0, 1)] + [loads[-1] | order for order in orders[2:]]
        latencies_s = simulate(experiment, variants, latency_a_token_s)
    figures = []
    low, high = published["gain_chat"]
    pairs = zip(latencies_s[::2], latencies_s[1::2], strict=False)  # those by tau come after
    for rate, (fcfs_s, ltr_s) in zip(values["rates"], pairs, strict=False):
        gain = fcfs_s / ltr_s
        highest = rate == max(values["rates"])
        what = f"{rate} requests/s: mean latency a token, fcfs / ranked with tau {values['tau']:g}"
        told = f"up to {high:g} x" if highest else f"{low:g} x"
        figures.append(Figure(what, told, f"{gain:.1f} x", gain > 1, near(gain, high, ALIKE) if highest else None))
    by_tau = latencies_s[2 * len(loads) :]
    falls = (
        all(after < WOBBLE * before for before, after in zip(by_tau, by_tau[1:], strict=False)) and by_tau[-1] < by_tau[0]
    )
    ours = ", ".join(f"{latency_s:.3f}" for latency_s in by_tau)
    what = f"s a token at {values['rates'][-1]}/s by tau {', '.join(f'{tau:g}' for tau in values['taus'])}"
    return [*figures, Figure(what, "falls", ours, falls, None)]


def requests_of(values: Mapping[str, Any], count: int, rate: float | None = None) -> dict[str, list[Any]]:
    """So many conversations, Poisson at this rate or all at once; answers by their quantiles, prompts lognormal."""
    random = np.random.default_rng(values["seed"])
    quantiles = np.asarray(values["length_quantiles"], float)
    outputs = np.interp(random.random(count), np.linspace(0, 1, len(quantiles)), quantiles)
    prompts = values["prompt_median"] * np.exp(values["prompt_sigma"] * random.standard_normal(count))
    return {
        "arrival_s": [0.0] * count if rate is None else np.cumsum(random.exponential(1 / rate, count)).tolist(),
        "prompt_tokens": np.clip(prompts.round(), 1, MOST_PROMPT_TOKENS).astype(int).tolist(),
        "output_tokens": outputs.round().astype(int).tolist(),
    }


def _data(experiment: Experiment) -> list[Figure]:
    values, published = experiment.values, experiment.published["gain_data"]
    orders = [{"policy": "fcfs"}, ranked(values["tau"]), ranked(1.0)]
    place = int(values["wanted"] * values["pool_requests"]) - 1
    with folder_of({"pool": requests_of(values, values["pool_requests"])}) as play:
        ends = simulate(experiment, [play["pool"] | order for order in orders], ends_s)
    fcfs_s, ltr_s, oracle_s = (each[place] for each in ends)
    gain, most = fcfs_s / ltr_s, fcfs_s / oracle_s
    what = f"until {place + 1:,} of {values['pool_requests']:,} have ended: requests/s, ranked / fcfs"
    return [
        Figure(
            f"{what}, tau {values['tau']:g}", f"{published:g} x", f"{gain:.1f} x", gain > 1, near(gain, published, ALIKE)
        ),
        Figure(f"{what}, lengths known", "", f"{most:.1f} x", None, None),
    ]
