"""Liveness under a steady stream that is a little more than the server can do: who waits, and how long.

Short requests alone keep it busy; a few long ones of low priority are among them. A wait is the time in which a request
was there and had no part in a step. One of more than 20 times the mean is starvation: a finding, for some policies mean it.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from twin.check.playing import judge
from twin.check.result import Result, Tell
from twin.check.subject import Subject

SHORT, QUICK_SHORT = 1000, 400  # requests; more than a thousand steps in the full check
STEP_S = 0.02
SEATS = 4
OUTPUT = (4, 12)  # tokens, uniform: with four seats two requests end in four steps
LOAD = 1.05
LONG = 5
STARVED = 20  # times the mean


def check(subject: Subject, quick: bool, tell: Tell) -> Result:
    """One long run."""
    result = Result("steady overload")
    content = subject.adapted(_stream(QUICK_SHORT if quick else SHORT))
    name = "stream"
    tell(name, content)
    played = judge(subject, name, content, result)
    if played.outcome is not None:
        _report(waits(played.outcome.requests, played.rows), content["requests"], result)
    return result


def waits(requests: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds that each request which finished was there without a part in a step."""
    served: dict[str, float] = {}
    for row in rows:
        for name in row["scheduled"]:
            served[name] = served.get(name, 0.0) + row["end_s"] - row["start_s"]
    there = zip(requests["request_id"], requests["status"], requests["arrival_s"], requests["finish_s"], strict=True)
    return {name: float(end - start) - served[name] for name, status, start, end in there if status == "finished"}


def _report(waited: dict[str, float], requests: list[dict[str, Any]], result: Result) -> None:
    if not waited:  # all rejected: that has been said
        return
    mean, longest = float(np.mean(list(waited.values()))), max(waited, key=lambda name: waited[name])
    row = next(row for row in requests if row["id"] == longest)
    size = f"prompt {row['prompt_tokens']}, output {row['output_tokens']} tokens"
    who = f"request {longest} ({size}, priority {row['priority']})"
    times = waited[longest] / mean if mean else 0.0
    told = f"the longest wait was {waited[longest]:.3g} s, of {who}, {times:.3g} times the mean of {mean:.3g} s"
    if times > STARVED:
        end_s = requests[-1]["arrival_s"]
        endless = row["arrival_s"] + waited[longest] > end_s
        result.find(f"starvation: {told}" + ("; it had to wait for the end of the stream" if endless else ""))
    result.notes.append(told)


def _stream(short: int) -> dict[str, Any]:
    rng = Random("stream")
    mean_steps = sum(OUTPUT) / 2
    gap_s = mean_steps * STEP_S / SEATS / LOAD
    requests = []
    for number in range(short):
        arrival_s = round((number + rng.random()) * gap_s, 4)
        requests.append({"id": f"s{number}", "arrival_s": arrival_s, "prompt_tokens": rng.randint(8, 24),
                         "output_tokens": rng.randint(*OUTPUT), "user": f"user-{number % 5}", "priority": 0})  # fmt: skip
        if number % (short // LONG) == short // LONG // 5:
            requests.append({"id": f"long{number}", "arrival_s": arrival_s, "prompt_tokens": 120,
                             "output_tokens": 60, "user": "user-long", "priority": 2})  # fmt: skip
    return {
        "cache": {"num_gpu_blocks": 64, "block_size": 16},
        "scheduler": {"max_num_seqs": SEATS, "max_num_batched_tokens": 256},
        "model": {"max_model_len": 200},
        "latency": {"base_s": STEP_S},
        "requests": requests,
    }
