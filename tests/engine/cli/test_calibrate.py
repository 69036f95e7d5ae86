"""What the engine measures, fitted by twin calibrate: a run's own steps, and a profile."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from engine.cli.main import main as engine
from tests.engine.cli.commands import TIGHT, lines, run
from tests.latency.shapes import gpu, model
from twin.calibrate.readers import Wanted, read
from twin.cli.main import main as twin
from twin.core.batch import Features


def test_the_features_of_a_runs_steps_are_those_that_follow_from_its_decisions():
    run("output.decisions=true", *TIGHT)
    prompts = dict(pd.read_parquet("out/requests.parquet")[["request_id", "prompt_tokens"]].itertuples(index=False))
    computed: dict[str, int] = {}
    expected = []
    for decided in lines("out/decisions.jsonl.gz"):
        for name in decided["preempted"]:
            computed[name] = 0
        parts = []
        for name, tokens in decided["scheduled"].items():
            if name in decided["cached_tokens"] and name in decided["admitted"]:
                computed[name] = decided["cached_tokens"][name]
            before = computed.get(name, 0)
            computed[name] = before + tokens
            parts.append((tokens, before, before < prompts[name] or tokens > 1))
        if parts:
            of_prefill = [(tokens, before) for tokens, before, prefill in parts if prefill]
            expected.append(
                Features(
                    len(parts),
                    sum(tokens for tokens, _ in of_prefill),
                    len(parts) - len(of_prefill),
                    sum(tokens + before for tokens, before, _ in parts),
                    sum(tokens + before for tokens, before in of_prefill),
                    sum(tokens * (before + tokens / 2) for tokens, before in of_prefill),
                    len(of_prefill),
                )
            )
    steps = read_here("out")
    assert [steps.step(row) for row in range(len(steps))] == expected
    measured = pd.read_parquet("out/steps.parquet").query("sequences > 0")
    assert list(steps.seconds) == list(measured["duration_s"])
    assert steps.host_s is not None and np.allclose(steps.host_s, measured["duration_s"] - measured["device_s"])


def read_here(path: str):

    return read(Path(path), Wanted(model("tiny"), gpu("cpu"), 1, True, True))


def test_a_run_can_be_calibrated_from_its_own_steps(capsys: pytest.CaptureFixture):
    run()
    assert twin(["calibrate", "profile=out/steps.parquet", "to=mine.yaml", "model=tiny", "gpu=cpu"]) == 0
    content = yaml.safe_load(Path("mine.yaml").read_text())
    assert (
        content["model"] == "tiny"
        and content["error"]["decode"]["steps"] > 5
        and "tenths of the run" in capsys.readouterr().out
    )
    assert twin(["calibrate", "profile=out", "to=mine.yaml", "model=smollm2-135m", "gpu=cpu"]) == 2
    assert "it is of model tiny (layers" in capsys.readouterr().err


def test_a_profile_can_be_calibrated():
    words = [
        "model=tiny",
        "engine.threads=1",
        "profile.budget_s=3",
        "profile.repeats=2",
        "profile.to=profile.parquet,profile.csv",
    ]
    assert engine(["profile", *words, "cache.num_gpu_blocks=60", "scheduler.max_num_seqs=8"]) == 0
    table = pd.read_parquet("profile.parquet")
    table["contaminated"] = False  # other tests run beside this one
    table.to_csv("profile.csv", index=False)
    assert twin(["calibrate", "profile=profile.csv", "to=mine.yaml", "model=tiny", "gpu=cpu"]) == 0
    content = yaml.safe_load(Path("mine.yaml").read_text())
    assert content["error"]["all"]["steps"] == (table["kind"] != "swap").sum() and content["coefficients"]["host_s"] > 0
