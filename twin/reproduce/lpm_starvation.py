"""Longest prefix match on a cold prompt among hot ones: with unit steps and under load, without and with ageing."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.cli.errors import UserError
from twin.reproduce.experiment import Experiment
from twin.reproduce.own_trace import folder_of
from twin.reproduce.result import Figure
from twin.reproduce.running import simulate, summary_of

if TYPE_CHECKING:
    from twin.notebook import Run

HASH_TOKENS = 512  # a content id covers so many
OWN_TOKENS = 16  # of a hot prompt in the part with unit steps
COLD = 0  # user of the cold requests; hot ones are 1


def run(experiment: Experiment) -> list[Figure]:
    return [*_unit_steps(experiment), *_under_load(experiment)]


def passes_of(simulated: "Run") -> int:
    """How many hot requests came in between the arrival of the cold one and its turn."""
    table = simulated.requests
    cold = table[table.user == str(COLD)].iloc[0]
    others = table[(table.user != str(COLD)) & (table.first_scheduled_s > cold.arrival_s)]
    return int((others.first_scheduled_s < cold.first_scheduled_s).sum())


def ttft_of(simulated: "Run") -> dict[str, float]:
    """Seconds to the first token, and the cold requests' share of their sum."""
    cold = simulated.requests.user == str(COLD)
    ttft_s = simulated.requests.ttft_s
    return {
        "share": float(ttft_s[cold].sum() / ttft_s.sum()),
        "cold_s": float(ttft_s[cold].mean()),
        "hot_s": float(ttft_s[~cold].mean()),
    }


def _unit_steps(experiment: Experiment) -> list[Figure]:
    match, hot, age = (experiment.values[key] for key in ("match_tokens", "hot_requests", "age_tokens"))
    prompt = match + OWN_TOKENS
    unit = {
        "system": "textbook",
        "latency": "linear",
        "latency.base_s": 1,
        "cache.enable_prefix_caching": True,
        "cache.num_gpu_blocks": (3 + hot) * (prompt // 16 + 1),
        "scheduler.max_num_seqs": 1,
        "scheduler.max_num_batched_tokens": prompt,
        "model": "llama3.1-8b",
    }
    users = [1, COLD, *[1] * hot]  # the first, at time 0, brings the prefix into the cache
    table = {
        "arrival_s": [0.0, 0.4, *(0.5 + step for step in range(hot))],
        "prompt_tokens": [prompt] * len(users),
        "output_tokens": [1] * len(users),
        "user": [str(user) for user in users],
        "prefix_hashes": _hashes(users, prompt, match),
        "hash_block_tokens": [HASH_TOKENS] * len(users),
    }
    with folder_of({"unit": table}) as play:
        alone = experiment._replace(options={**unit, **play["unit"], "policy": "lpm"}, jobs=1)
        plain, aged = simulate(alone, [{}, {"policy.age_tokens": age}], passes_of)
    published = experiment.published["passes_with_ageing"]
    return [
        Figure(f"passed over, of {hot} hot arrivals: no ageing", "all", f"{plain}", plain == hot, plain == hot),
        Figure(f"passed over, ageing {age} tokens a pass", f"{published}", f"{aged}", aged < plain, aged == published),
    ]


def _under_load(experiment: Experiment) -> list[Figure]:
    values = experiment.values
    greatest = _greatest_rate(experiment)
    policies: list[dict[str, Any]] = [
        {"policy": "fcfs"},
        {"policy": "lpm"},
        {"policy": "lpm", "policy.age_tokens": values["age_tokens"]},
    ]
    tables = {f"load{load:g}": load_table(values, load * greatest, values["seed"]) for load in values["loads"]}
    with folder_of(tables) as play:
        variants = [policy | play[name] for name in tables for policy in policies]
        runs = simulate(experiment, variants, ttft_of)
    figures = []
    for load in values["loads"]:
        fcfs, lpm, aged = runs[: len(policies)]
        runs = runs[len(policies) :]
        highest = load == max(values["loads"])
        figures.append(_share(experiment, load, lpm["share"], fcfs["share"], highest))
        what = f"at {load:g} of the most, mean TTFT of cold"
        ours = f"{lpm['cold_s']:.1f} s (fcfs {fcfs['cold_s']:.1f} s, ageing {aged['cold_s']:.1f} s)"
        less = fcfs["cold_s"] < lpm["cold_s"] and aged["cold_s"] < lpm["cold_s"]
        figures.append(Figure(what, "20 to 60 s, fcfs and ageing less", ours, less if highest else None, None))
        ours = f"{lpm['hot_s']:.2f} s (fcfs {fcfs['hot_s']:.2f} s, ageing {aged['hot_s']:.2f} s)"
        less = lpm["hot_s"] < fcfs["hot_s"] and lpm["hot_s"] < aged["hot_s"]
        figures.append(Figure(what.replace("cold", "hot"), "fcfs and ageing more", ours, less if highest else None, None))
    return figures


def _share(experiment: Experiment, load: float, lpm: float, fcfs: float, highest: bool) -> Figure:
    """Only where a queue stands an order matters: below the greatest load nothing is judged."""
    what = f"at {load:g} of the most, share of all TTFT of the {experiment.values['cold_share']:.0%} cold"
    published = experiment.published["cold_share_of_ttft"]
    return Figure(what, f"{published:.0%}", f"{lpm:.0%} (fcfs {fcfs:.0%})", lpm > fcfs if highest else None, None)


def load_table(values: Mapping[str, Any], rate: float, seed: int) -> dict[str, Sequence[Any]]:
    """Poisson arrivals; each is cold with the published share, and the first of all is hot, to bring the prefix in."""
    count = values["requests"]
    random = np.random.default_rng(seed)
    users = np.where(random.random(count) < values["cold_share"], COLD, 1)
    users[0] = 1
    if not (users == COLD).any():
        raise UserError(f"requests, cold_share: none of {count:,} requests is cold")
    return {
        "arrival_s": np.cumsum(random.exponential(1 / rate, count)).tolist(),
        "prompt_tokens": [values["prompt_tokens"]] * count,
        "output_tokens": [values["output_tokens"]] * count,
        "user": [str(user) for user in users],
        "prefix_hashes": _hashes(users.tolist(), values["prompt_tokens"], values["hot_tokens"]),
        "hash_block_tokens": [HASH_TOKENS] * count,
    }


def _hashes(users: Sequence[int], prompt_tokens: int, shared_tokens: int) -> list[list[int]]:
    """Ids of the content: those of the shared tokens are the same for all hot requests, all others nobody else's."""
    each, shared = -(-prompt_tokens // HASH_TOKENS), shared_tokens // HASH_TOKENS
    ids = []
    for index, user in enumerate(users):
        own = range((index + 1) * each, (index + 2) * each)
        ids.append([*own] if user == COLD else [*range(shared), *own[shared:]])
    return ids


def _greatest_rate(experiment: Experiment) -> float:
    """Requests/s that first come, first served finishes when all are there at once."""
    table = load_table(experiment.values, 1.0, 0) | {"arrival_s": [0.0] * experiment.values["requests"]}
    with folder_of({"at_once": table}) as play:
        summary = simulate(experiment._replace(jobs=1), [{"policy": "fcfs"} | play["at_once"]], summary_of)[0]
    return float(summary["request_throughput"])
