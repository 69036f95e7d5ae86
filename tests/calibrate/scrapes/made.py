"""Scrapes as a vLLM would have shown them of a run whose every token is known: counted one by one, in plain loops."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.calibrate.requests.logs import TRUTH, blank_log, served_by
from twin.calibrate.requests.basis import FittedTerms
from twin.calibrate.requests.log import RequestLog
from twin.calibrate.requests.served import Steps
from twin.core.batch import Features
from twin.latency.model import LatencyModel
from twin.sim.simulation import Outcome

LABELS = 'engine="0",model_name="tiny"'
SEATS = 64
# Of vLLM 0.32, without those beyond what is met here.
EDGES = {
    "time_to_first_token_seconds": (
        0.001,
        0.005,
        0.01,
        0.02,
        0.04,
        0.06,
        0.08,
        0.1,
        0.25,
        0.5,
        0.75,
        1.0,
        2.5,
        5.0,
        7.5,
        10.0,
    ),
    "inter_token_latency_seconds": (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
    "request_time_per_output_token_seconds": (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
    "e2e_request_latency_seconds": (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0),
    "request_queue_time_seconds": (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0),
}


class Slower(LatencyModel):
    """The true model, each step so many times as long."""

    def __init__(self, factor: float = 1.0) -> None:
        self.inner, self.factor = FittedTerms().latency(TRUTH), factor

    def step_s(self, features: Features) -> float:
        return self.factor * self.inner.step_s(features)


@dataclass(frozen=True, eq=False)
class Run:
    log: RequestLog
    outcome: Outcome
    queued_s: list[float]  # when the scheduler was given each: after the step under way


def real_run(count: int = 120, rate: float = 14.0, blocks: int = 420) -> Run:
    """A run of the true model, and what it logs: with this pool some requests are preempted."""
    blank = blank_log(count, rate)
    outcome = served_by(blank, blocks, SEATS).outcome(Slower())
    stamps = {name: np.array(outcome.requests[name], float) for name in ("first_scheduled_s", "first_token_s", "finish_s")}
    log = RequestLog(
        "made", blank.request_id, blank.arrival_s, blank.prompt_tokens, blank.output_tokens, blank.arrival_s.copy(),
        stamps["first_scheduled_s"], stamps["first_token_s"], stamps["finish_s"],
    )  # fmt: skip
    _, steps = served_by(blank, blocks, SEATS).play_steps(Slower())
    return Run(log, outcome, [given(arrival_s, steps) for arrival_s in blank.arrival_s.tolist()])


def given(arrival_s: float, steps: Steps) -> float:
    for start_s, end_s in zip(steps.start_s.tolist(), steps.end_s.tolist(), strict=True):
        if start_s < arrival_s < end_s:
            return end_s
    return arrival_s


def scrape_text(run: Run, at_s: float) -> str:
    """All that is compared, as of this time of the run."""
    log, outcome = run.log, run.outcome
    first = [row for row in range(len(log)) if log.first_token_s[row] <= at_s]
    ended = [row for row in range(len(log)) if log.finish_s[row] <= at_s]
    gaps = [
        (float(seconds), int(count))
        for seconds, count, when in zip(outcome.itl_s, outcome.itl_count, outcome.itl_at_s, strict=True)
        if when <= at_s
    ]
    steps = outcome.steps
    done = [row for row in range(len(steps["start_s"])) if steps["start_s"][row] + steps["duration_s"][row] <= at_s]
    last = done[-1] if done else None

    def of_step(name: str) -> float:
        return 0.0 if last is None else float(steps[name][last])

    preempted = sum(int(steps["preempted"][row]) for row in range(len(steps["start_s"])) if steps["start_s"][row] <= at_s)
    lines = [
        counter("prompt_tokens", sum(int(log.prompt_tokens[row]) for row in first)),
        counter("generation_tokens", len(first) + sum(count for _, count in gaps)),
        counter("num_preemptions", preempted),
        f'vllm:request_success_total{{{LABELS},finished_reason="stop"}} 0.0',
        f'vllm:request_success_total{{{LABELS},finished_reason="length"}} {len(ended)}.0',
        f"vllm:num_requests_running{{{LABELS}}} {of_step('running')}",
        f"vllm:num_requests_waiting{{{LABELS}}} {of_step('waiting')}",
        f"vllm:kv_cache_usage_perc{{{LABELS}}} {of_step('used_blocks') / outcome.num_blocks}",
        f'vllm:cache_config_info{{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",'
        f'num_gpu_blocks="{outcome.num_blocks + 1}"}} 1.0',
    ]
    per_token = [log.decode_s[row] / (log.output_tokens[row] - 1) for row in ended]
    seen = {
        "time_to_first_token_seconds": [(log.first_token_s[row] - log.arrival_s[row], 1) for row in first],
        "inter_token_latency_seconds": gaps,
        "request_time_per_output_token_seconds": [(value, 1) for value in per_token],
        "e2e_request_latency_seconds": [(log.finish_s[row] - log.arrival_s[row], 1) for row in ended],
        "request_queue_time_seconds": [(max(0.0, log.scheduled_s[row] - run.queued_s[row]), 1) for row in ended],
    }
    for name, values in seen.items():
        lines += histogram(name, values)
    return "\n".join(lines) + "\n"


def counter(name: str, value: float) -> str:
    return f"vllm:{name}_total{{{LABELS}}} {float(value)}"


def histogram(name: str, values: list[tuple[float, int]]) -> list[str]:
    lines = [f"# HELP vllm:{name} Histogram.", f"# TYPE vllm:{name} histogram"]
    for edge in (*EDGES[name], float("inf")):
        below = sum(count for value, count in values if value <= edge)
        lines.append(f'vllm:{name}_bucket{{{LABELS},le="{"+Inf" if edge == float("inf") else edge}"}} {float(below)}')
    number, total = sum(count for _, count in values), sum(value * count for value, count in values)
    return [*lines, f"vllm:{name}_count{{{LABELS}}} {float(number)}", f"vllm:{name}_sum{{{LABELS}}} {float(total)!r}"]


def write_scrapes(run: Run, path: Path, times_s: np.ndarray, start_s: float) -> Path:
    """One file; `start_s` is the run's start on the clock of the day."""
    path.write_text("".join(f"{start_s + at_s:.6f}\n{scrape_text(run, at_s)}" for at_s in times_s.tolist()))
    return path
