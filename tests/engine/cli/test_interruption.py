"""What ends a run of the engine before its end: whole files with what was done until then, and an exit status."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from engine.cli.main import main
from tests.engine.cli.commands import SMALL, lines, summary, tokens

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 120


def started(*words: str) -> subprocess.Popen:
    """A run in a process of its own, when it has just said that it begins."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    words = ("run", *SMALL, *words, "output.decisions=true", "engine.tokens=true", "hydra.run.dir=out")
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("note: model=tiny"):
            return process
    raise AssertionError(process.stderr.read())


def whole_files() -> None:
    """All of a folder can be read, and says the same."""
    told, steps = summary(), pd.read_parquet("out/steps.parquet")
    assert told["complete"] is False and told["steps"] == len(steps) == len(lines("out/decisions.jsonl.gz"))
    statuses = pd.read_parquet("out/requests.parquet")["status"].value_counts()
    assert (told["finished"], told["unfinished"]) == (statuses.get("finished", 0), statuses.get("unfinished", 0))
    assert yaml.safe_load(Path("out/config.yaml").read_text())["provenance"]["engine"]["model"] == "tiny"
    assert len(tokens()) >= told["finished"]
    assert not [path for path in Path("out").rglob("*") if path.name.startswith(".") or path.suffix == ".tmp"]


@pytest.mark.parametrize(
    "words",
    [
        "trace.num_requests=100000 trace.arrivals=closed(4)",  # hours of work
        "trace.arrivals=constant(0.001) engine.skip_idle=false",  # hours of waiting
        "trace.arrivals=constant(0.001) engine.skip_idle=false scheduler.async_scheduling=true",
    ],
    ids=["busy", "waiting", "waiting, with a thread"],
)
def test_ctrl_c_saves_what_is_done(words):
    process = started(*words.split())
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 130
    assert said.splitlines()[-1] == "engine run: interrupted; what was done until then is saved" and "Traceback" not in said
    whole_files()
    assert summary()["unfinished"] > 0


def test_a_policy_that_raises_is_one_message_and_what_is_done_is_saved(failing, capsys):
    words = [*SMALL, "policy=failing", "allow_unchecked=true", "output.decisions=true", "engine.tokens=true"]
    assert main(["run", *words, "hydra.run.dir=out"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "policy Failing" in line and "failing.py:13 raised RuntimeError: boom" in line and "Traceback" not in line
    whole_files()
    assert summary()["finished"] + summary()["unfinished"] == 12


def test_a_failed_seed_ends_the_repetitions(failing, capsys):
    words = [*SMALL, "policy=failing", "allow_unchecked=true", "seeds=3"]
    assert main(["run", *words, "hydra.run.dir=out"]) == 1
    assert "boom" in capsys.readouterr().err.splitlines()[-1]
    assert Path("out/seed=0/summary.json").exists() and not Path("out/seed=1").exists()
