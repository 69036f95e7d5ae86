"""A real vLLM run played again with a step-latency model, and how far the two lie apart.

For runs whose KV pool is never short: seats, budget and arrivals alone decide what a step holds. Requests are those of
LLMServingSim's `bench_vllm` (input_toks, output_toks, and stamps in seconds).
"""

import csv
import json
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np

from twin.core.batch import Features

StepTime = Callable[[Features], float]


def features_of(parts: list[tuple[int, int, int]], prompts: list[int]) -> Features:
    """Features of a batch of (request, tokens, computed before)."""
    prefill = [part for part in parts if part[2] < prompts[part[0]]]
    tokens = sum(part[1] for part in prefill)
    pairs = sum(new * (before + new / 2) for _, new, before in prefill)
    context, of_prefill = (sum(new + before for _, new, before in some) for some in (parts, prefill))
    return Features(len(parts), tokens, len(parts) - len(prefill), context, of_prefill, pairs, len(prefill))


def play(requests: list[dict], step_s: StepTime, seats: int = 128, budget: int = 2048) -> tuple[np.ndarray, np.ndarray]:
    """First- and last-token times under vLLM's asynchronous step, for a pool that is never short."""
    prompts, outputs = ([r[key] for r in requests] for key in ("input_toks", "output_toks"))
    needed = [p + o - 1 for p, o in zip(prompts, outputs, strict=True)]
    first, last = np.zeros(len(requests)), np.zeros(len(requests))
    computed, waiting, running, queue = [0] * len(requests), deque[int](), list[int](), deque[list]()
    arrived, done, now = 0, 0, 0.0

    def plan() -> list[tuple[int, int, int]]:
        parts, left = [], budget

        def give(request: int) -> int:
            before = computed[request]
            new = min(max(prompts[request] - before, 1), needed[request] - before, left)
            if new > 0:
                parts.append((request, new, before))
                computed[request] += new
            return new

        for request in running:
            left -= give(request)
        while waiting and left and len(running) < seats:
            running.append(waiting.popleft())
            left -= give(running[-1])
        return parts

    while done < len(requests):
        while arrived < len(requests) and requests[arrived]["arrival_s"] <= now:
            waiting.append(arrived)
            arrived += 1
        if parts := plan():
            queue.append(parts)
            if len(queue) < 2:
                continue
        if not queue:
            now = requests[arrived]["arrival_s"]
            continue
        batch = queue.popleft()
        now += step_s(features_of(batch, prompts))
        for request, new, before in batch:
            if before + new == prompts[request]:
                first[request] = now
            if before + new == needed[request]:
                last[request] = now
                running.remove(request)
                done += 1
    return first, last


def read_run(path: Path) -> list[dict]:
    """Requests of a real run by arrival, all times from the first; arrivals are on another clock than the rest."""
    requests = [json.loads(line) for line in path.read_text().splitlines()]
    shift = min(r["queued_ts"] - r["arrival_time"] for r in requests)
    start = min(r["arrival_time"] for r in requests) + shift
    for r in requests:
        r.update(arrival_s=r["arrival_time"] + shift - start, first_s=r["first_token_ts"] - start)
        r.update(last_s=r["last_token_ts"] - start)
    return sorted(requests, key=lambda r: r["arrival_s"])


def run_errors(requests: list[dict], step_s: StepTime, chosen: np.ndarray) -> dict[str, float]:
    """How the played run differs from the real one, over the chosen requests."""
    arrival, first, last = (np.array([r[key] for r in requests])[chosen] for key in ("arrival_s", "first_s", "last_s"))
    played_first, played_last = (times[chosen] for times in play(requests, step_s))
    tpot, end_to_end = (played_last - played_first) / (last - first) - 1, (played_last - arrival) / (last - arrival) - 1
    return {
        "loss": float(np.mean(tpot**2) + np.mean(end_to_end**2)),
        "tpot_mape": percent(np.abs(tpot).mean()),
        "ttft_mean": percent((played_first - arrival).mean() / (first - arrival).mean() - 1),
        "e2e_mean": percent((played_last - arrival).mean() / (last - arrival).mean() - 1),
    }


def read_points(path: Path) -> list[dict]:
    """Closed-loop runs of TensorRT-LLM with Llama-3.1-8B on one H100 (precision not stated; its times are those of bf16)."""
    with path.open(newline="") as file:
        wanted = {"model_path": "meta-llama/Llama-3.1-8B-Instruct", "system": "h100_sxm", "tp_size": "1"}
        return [row for row in csv.DictReader(file) if all(row[key] == value for key, value in wanted.items())]


def point_errors(points: list[dict], step_s: StepTime) -> dict[str, float]:
    """How the mean time per output token differs from that of the runs, each played with six requests a seat."""
    errors = []
    for point in points:
        prompt, output, seats = (int(float(point[key])) for key in ("isl", "osl", "batch_size"))
        requests = [{"input_toks": prompt, "output_toks": output, "arrival_s": 0.0}] * (6 * seats)
        first, last = play(requests, step_s, seats, budget=8192)
        errors.append(1e3 * ((last - first) / (output - 1)).mean() / float(point["silicon_tpot_ms"]) - 1)
    found = np.array(errors)
    return {"tpot_mape": percent(np.abs(found).mean()), "bias": percent(found.mean()), "runs": len(found)}


def percent(value: float) -> float:
    return round(100 * float(value), 2)
