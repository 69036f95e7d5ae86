"""VTC against first come, first served on the arena trace: what a real engine measured, and what the simulator says.

    python bench/arena.py FOLDER

FOLDER holds FCFS.all_results_real.jsonl and VTC.all_results_real.jsonl of github.com/Ying1123/VTC-artifact, fair_bench/
(Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024): 1,500 requests of 27 clients in 600 s, with the
latencies that S-LoRA measured, Llama-2-7B on an A10G.

The system is that of the artifact: a pool of 10,000 tokens, taken token by token; prompts of at most 3,072 tokens a step; a
request comes in if the peak of memory, with the outputs known, stays within the pool (past_future with an oracle is that
engine's rule). What a step takes:

    roofline   from the data sheets alone
    profile    decodes: a least-squares fit, to 1.3 %, of fair_bench/cost_profile.json (batches up to 60), and its 0.215 ms a
               prompt token: kernels in a loop, without the server around them
    + host     and so much more a step that the time per output token of the first 10 s, before there is any queue, is the
               measured one (the run under FCFS; 35 of the 1,500 requests): 5 ms

The engine differs further: prompts run in steps of their own, and after an admission ten decode steps pass before the queue
is looked at again. The latter, tried here, moved no mean TTFT by more than 1.3 % and no median by more than 8 %. The system
is a little above what it can serve, so that TTFT is a small difference of large numbers: 5 ms more a step double it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import yaml

from traces.readers import read_file
from twin.core.limits import Limits
from twin.latency.linear import LinearLatency
from twin.latency.make import make_roofline
from twin.latency.model import LatencyModel
from twin.memory import gpu_from, model_shape
from twin.policies_registry import find
from twin.policy_parts import combined
from twin.predictors.oracle import Oracle
from twin.sim.simulation import Setup, Simulation

FILES = {"fcfs": "FCFS.all_results_real.jsonl", "vtc": "VTC.all_results_real.jsonl"}
PROFILE = {"base_s": 0.0294, "per_seq_s": 5.0e-5, "per_prefill_token_s": 2.15e-4, "per_context_token_s": 9.9e-7}
EARLY_S = 10.0
POOL_TOKENS = 10_000
CONF = Path(__file__).resolve().parents[1] / "conf"

Stamps = dict[str, np.ndarray]  # user, arrival_s, first_token_s, finish_s, prompt_tokens, output_tokens


def measured(folder: Path, policy: str) -> Stamps:
    """What the engine's clients saw."""
    responses = json.loads((folder / FILES[policy]).read_text().splitlines()[0])["result"]["responses"]
    columns = {key: np.array([entry[key] for entry in responses]) for key in responses[0]}
    arrival_s = columns["req_time"]
    return {
        "user": columns["adapter_dir"],
        "arrival_s": arrival_s,
        "first_token_s": arrival_s + columns["first_token_latency"],
        "finish_s": arrival_s + columns["request_latency"],
        "prompt_tokens": columns["prompt_len"],
        "output_tokens": columns["output_len"],
    }


def simulated(folder: Path, policy: str, latency: LatencyModel) -> Stamps:
    trace = read_file(folder / FILES[policy])
    limits = Limits(POOL_TOKENS, block_size=1, max_num_seqs=1000, max_num_batched_tokens=3072, max_model_len=3072)
    admission, _ = find("past_future").build({"reserved": 0.0})
    scheduling, _ = find(policy).build({})
    setup = Setup(limits, combined(scheduling, {"admission": admission}), latency, predictor=Oracle())
    requests = Simulation(setup, trace).run().requests
    columns = ("user", "arrival_s", "first_token_s", "finish_s", "prompt_tokens", "output_tokens")
    return {name: np.array(requests[name]) for name in columns}


def roofline() -> LatencyModel:
    model, gpu = (yaml.safe_load((CONF / f"{name}.yaml").read_text()) for name in ("model/llama2-7b", "gpu/a10g"))
    return make_roofline({}, model_shape(model), gpu_from(gpu), 1)


def latencies(folder: Path) -> dict[str, LatencyModel]:
    profile = LinearLatency(**PROFILE)
    host_s = early_tpot_s(measured(folder, "fcfs")) - early_tpot_s(simulated(folder, "fcfs", profile))
    with_host = LinearLatency(**{**PROFILE, "base_s": PROFILE["base_s"] + host_s})
    return {"roofline": roofline(), "profile": profile, "+ host": with_host}


def early_tpot_s(stamps: Stamps) -> float:
    """Median time per output token of the first requests."""
    tpot_s = (stamps["finish_s"] - stamps["first_token_s"]) / np.maximum(stamps["output_tokens"] - 1, 1)
    return float(np.median(tpot_s[stamps["arrival_s"] < EARLY_S]))


def figures(stamps: Stamps) -> dict[str, float]:
    """TTFT in seconds; of all requests, and of each client's mean."""
    ttft_s = stamps["first_token_s"] - stamps["arrival_s"]
    of_clients = [ttft_s[stamps["user"] == user].mean() for user in np.unique(stamps["user"])]
    return {
        "mean": ttft_s.mean(),
        "median": float(np.median(ttft_s)),
        "p90": float(np.percentile(ttft_s, 90)),
        "mean of clients": float(np.mean(of_clients)),
        "worst client": max(of_clients),
        "last token at": stamps["finish_s"].max(),
    }


def service(stamps: Stamps, at_s: float) -> dict[str, float]:
    """prompt + 2 · output tokens served to each client by then; a request's outputs come evenly from first to last."""
    first_s, end_s, output = stamps["first_token_s"], stamps["finish_s"], stamps["output_tokens"]
    share = np.clip((at_s - first_s) / np.maximum(end_s - first_s, 1e-9), 0, 1)
    served = (first_s <= at_s) * (stamps["prompt_tokens"] + 2 * (1 + share * (output - 1)))
    return {user: float(served[stamps["user"] == user].sum()) for user in np.unique(stamps["user"])}


def misplaced(one: dict[str, float], other: dict[str, float]) -> float:
    """Share of the service that another client has than there."""
    total, other_total = sum(one.values()), sum(other.values())
    return sum(abs(one[user] / total - other[user] / other_total) for user in one) / 2


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0])
    models = latencies(folder)
    for policy in FILES:
        theirs = measured(folder, policy)
        ours = {name: simulated(folder, policy, latency) for name, latency in models.items()}
        table = {"measured": figures(theirs)} | {name: figures(stamps) for name, stamps in ours.items()}
        print(f"{policy:<16}" + "".join(f"{name:>12}" for name in table))
        for row in table["measured"]:
            print(f"{row:<16}" + "".join(f"{column[row]:12.2f}" for column in table.values()))
        for at_s in (200, 400, 600):
            shares = [misplaced(service(theirs, at_s), service(stamps, at_s)) for stamps in ours.values()]
            print(f"misplaced, {at_s} s" + " " * 12 + "".join(f"{share:12.1%}" for share in shares))
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
