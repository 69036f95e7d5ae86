"""A recorded run of a real vLLM 0.32: its steps and tokens as a scrape of /metrics would have counted them, beside the
simulator that was fitted to its request stamps."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("prometheus_client", reason="reads scrapes; pip install prometheus-client")

from tests.calibrate.requests.logs import options_of
from tests.calibrate.scrapes.made import LABELS, counter, histogram
from tests.shared import shared
from twin.calibrate.requests import command
from twin.calibrate.requests.reading import read_log
from twin.calibrate.scrapes.compare import Comparison

EVERY_S, START_S = 2.0, 1_790_000_000.0
SERVER = (
    "cache.num_gpu_blocks=1455", "cache.block_size=32", "cache.enable_prefix_caching=false", "scheduler.max_num_seqs=32",
    "scheduler.max_num_batched_tokens=512", "scheduler.async_scheduling=false", "model.max_model_len=1024",
)  # fmt: skip


def rows_of(path: Path) -> list[dict[str, float]]:
    with path.open() as file:
        return [
            {name: float(cell) for name, cell in row.items() if name not in ("request_id", "group")}
            for row in csv.DictReader(file)
        ]


def scrapes_of(folder: Path, path: Path) -> Path:
    requests, steps = rows_of(folder / "requests.csv"), rows_of(folder / "steps.csv")
    tokens = [json.loads(line)["token_s"] for line in (folder / "tokens.jsonl").read_text().splitlines()]
    texts = []
    for at_s in np.arange(-1.0, steps[-1]["end_s"] + EVERY_S, EVERY_S).tolist():
        ended = [row for row in requests if row["finish_s"] <= at_s]
        first = [row for row in requests if row["first_token_s"] <= at_s]
        step = next((row for row in reversed(steps) if row["end_s"] <= at_s), None)
        gaps = [
            (float(gap), 1) for times in tokens for gap, when in zip(np.diff(times), times[1:], strict=True) if when <= at_s
        ]
        lines = [
            f"{START_S + at_s}",
            counter("request_success", len(ended)),
            counter("prompt_tokens", sum(row["prompt_tokens"] for row in first)),
            counter("generation_tokens", sum(when <= at_s for times in tokens for when in times)),
            counter("num_preemptions", sum(row["preempted"] for row in steps if row["end_s"] <= at_s)),
            f"vllm:num_requests_running{{{LABELS}}} {step['running'] if step else 0}",
            f"vllm:num_requests_waiting{{{LABELS}}} {step['waiting'] if step else 0}",
            f"vllm:kv_cache_usage_perc{{{LABELS}}} {1 - step['free_blocks'] / 1455 if step else 0}",
            *histogram("inter_token_latency_seconds", gaps),
            *histogram("time_to_first_token_seconds", [(row["first_token_s"] - row["arrival_s"], 1) for row in first]),
            *histogram("e2e_request_latency_seconds", [(row["finish_s"] - row["arrival_s"], 1) for row in ended]),
        ]
        texts.append("\n".join(lines) + "\n")
    path.write_text("".join(texts))
    return path


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder, place = shared("profiles", "vllm_cpu", "load06"), tmp_path_factory.mktemp("recorded")
    scrapes = scrapes_of(folder, place / "scrapes.txt")
    options = options_of(folder / "requests.csv", place / "mine.yaml", *SERVER, f"metrics={scrapes}", "holdout=none")
    account, _ = command.carry_out(options, read_log(folder / "requests.csv"))
    assert account.scraped is not None
    return account.scraped


def test_the_simulators_own_figures_are_those_of_the_server(comparison: Comparison):
    """Percent; the run's own spread, from one to the next, is about four."""
    errors = {figure.name: figure.error for figure in comparison.figures}
    for name in ("requests /s", "prompt tokens /s", "generated tokens /s", "preemptions"):
        assert errors[name] == pytest.approx(0, abs=1e-6)
    for name in ("between two tokens, mean, s", "time to the first token, mean, s", "whole request, mean, s"):
        assert abs(errors[name]) < 4, errors
    assert abs(errors["running, mean of the scrapes"]) < 8 and abs(errors["KV cache in use, mean, %"]) < 1, errors


def test_the_log_is_laid_where_the_scrapes_were_made(comparison: Comparison):
    assert comparison.alignment.start_s == pytest.approx(START_S + 0.091, abs=0.1)  # the first arrival
    assert comparison.alignment.apart < 0.005
