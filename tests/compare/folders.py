"""Run folders made by hand: requests served one after the other, or as told."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.results.records import record, requests, steps
from twin.results.save import save_numbers
from twin.results.summary import summarize


def folder(path: Path, latency_s: Any, policy: str = "fcfs", seed: int = 0, every_s: float = 1.0, **others: Any) -> Path:
    """A run whose request k comes at k * every_s and takes latency_s[k]: its one token is its first and its last.

    `requests`, `steps`: more columns; `config`: more of the configuration; `summary`: what it says beside.
    """
    taken_s = np.asarray(latency_s, dtype=np.float64)
    arrival_s = np.arange(len(taken_s)) * every_s
    columns = requests(
        arrival_s=arrival_s, first_scheduled_s=arrival_s, first_token_s=arrival_s + taken_s, finish_s=arrival_s + taken_s,
    ) | others.get("requests", {})  # fmt: skip
    made = record(columns, steps(**others["steps"]) if "steps" in others else None, end_s=float((arrival_s + taken_s).max()))
    config = {"policy": {"name": policy}, "trace": {"name": "synthetic", "rate": 1 / every_s}, "seed": seed, "slo": {}}
    summary = summarize(made) | others.get("summary", {})
    save_numbers(path, made, summary, config | others.get("config", {}))
    return path


def sweep_folder(path: Path, jobs: dict[str, dict[str, Any]]) -> Path:
    """sweep.parquet over folders that are there, by name: what is swept in each."""
    from twin.sweep.jobs import Job, Plan
    from twin.sweep.table import write_table

    rows = [
        {
            "job": name,
            "status": "finished",
            "reason": None,
            **settings,
            **json.loads((path / name / "summary.json").read_text()),
        }
        for name, settings in jobs.items()
        if (path / name / "summary.json").exists()
    ]
    plan = Plan(path, tuple(next(iter(jobs.values()))), [Job(name, path / name, jobs[name], (), 1) for name in jobs])
    write_table(plan, rows)
    return path
