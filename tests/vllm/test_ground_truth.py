"""A real vLLM with the recording scheduler, on a tiny model: ours decides as it did, whatever its times."""

import csv
import json
import sys
from pathlib import Path

import pytest

from engine.ground_truth.live.interpreter import VERSIONS
from twin.cli.main import main

SMALL = [
    f"vllm.python={sys.executable}", "model=tiny", "model.heads=1", "model.kv_heads=1", "model.head_dim=64",
    "trace=synthetic", "trace.prompt_tokens=uniform(8,90)", "trace.output_tokens=uniform(2,9)", "trace.num_requests=12",
    "scheduler.max_num_seqs=3", "scheduler.max_num_batched_tokens=64", "validate.loads=0.5", "validate.repeats=1",
    "output.figures=false", "output.report=false", "vllm.start_timeout_s=900",
]  # fmt: skip


@pytest.fixture(autouse=True)
def live(version: str) -> None:
    if version not in VERSIONS:
        pytest.skip(f"runs are recorded with vLLM {', '.join(VERSIONS)}, this is {version}")
    import torch.version

    if torch.version.cuda is not None:
        pytest.skip("a vLLM for GPUs: the tiny model is for the CPU's")


@pytest.mark.parametrize(
    "words",
    [
        ["vllm.clock=wall"],
        ["vllm.clock=cpu", "policy=sjf", "predictor=oracle"],
        # four blocks fewer than three requests may want: who finds none is preempted
        ["vllm.clock=cpu", "policy=srpt", "predictor=oracle", "cache.num_gpu_blocks=8", "model.max_model_len=128"],
    ],
    ids=["fcfs", "sjf", "srpt"],
)
def test_every_step_of_a_live_run_is_decided_alike(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["validate", "engine=vllm", *SMALL, *words, f"hydra.run.dir={tmp_path / 'out'}"])
    told = capsys.readouterr()
    assert status in (0, 1), told.err  # 1: times of a tiny model on a busy machine are not foretold
    found = json.loads((tmp_path / "out" / "validation.json").read_text())
    assert found["lockstep"].keys() == {"burst", "load0.5"}, told.err
    for name, run in found["lockstep"].items():
        assert run["first_difference"] is None and run["requests_that_differ"] == [], (name, run)
        assert run["identical"] == run["steps"] > 0
    rows = list(csv.DictReader((tmp_path / "out" / "recorded" / "load0.5" / "requests.csv").open()))
    assert len(rows) == 12 and all(float(row["added_s"]) >= float(row["arrival_s"]) for row in rows)


def test_a_scheduler_that_there_is_not_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["vllm.scheduler_cls=engine.nowhere.Scheduler", f"hydra.run.dir={tmp_path / 'out'}"]
    assert main(["validate", "engine=vllm", *SMALL, *words]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "No module named 'engine.nowhere'" in error and "vllm.log" in error
