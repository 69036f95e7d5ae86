"""The process of vLLM from outside, with a child that is no vLLM: it starts, fails, hangs and dies as told."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.ground_truth.live import interpreter
from engine.ground_truth.live.process import VllmFailed, VllmProcess, reason
from twin.cli.errors import UserError
from twin.cli.main import main

READY = 'import json, os, sys, time\nevents = os.fdopen(json.load(open(sys.argv[-1]))["events"], "w")\n'
READY += 'print(json.dumps({"ready": {"vllm": "0"}}), file=events, flush=True)\n'
ECHO = READY + "for line in sys.stdin:\n"
ECHO += '    order = json.loads(line)\n    if "quit" in order: sys.exit()\n'
ECHO += '    print(json.dumps({"played": order["play"]}), file=events, flush=True)\n'


def child(folder: Path, text: str) -> VllmProcess:
    """A Python that runs this text whatever it is asked to run."""
    (folder / "child.py").write_text(text)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {folder / "child.py"} "$@"\n')
    python.chmod(0o755)
    return VllmProcess(str(python), {}, folder / "job.json", dict(os.environ), folder / "vllm.log")


def test_orders_are_answered(tmp_path: Path):
    with child(tmp_path, ECHO) as process:
        assert process.wait_ready(60) == {"vllm": "0"}
        process.play({"play": "one"}, 60)
        process.play({"play": "two"}, 60)
    assert process.process.returncode == 0


def test_one_that_dies_while_it_starts_is_told_with_its_error(tmp_path: Path):
    text = 'raise ValueError("no such model")'
    with pytest.raises(VllmFailed) as caught, child(tmp_path, text) as process:
        process.wait_ready(60)
    assert str(caught.value) == (
        f"vLLM ended (status 1) while starting: ValueError: no such model; its log: {tmp_path / 'vllm.log'}"
    )


def test_one_that_dies_in_a_run_is_told(tmp_path: Path):
    with (
        pytest.raises(VllmFailed, match="while playing burst: OSError: out of memory"),
        child(tmp_path, READY + 'sys.stdin.readline()\nraise OSError("out of memory")') as process,
    ):
        process.wait_ready(60)
        process.play({"play": "burst"}, 60)


def test_one_that_says_nothing_is_ended(tmp_path: Path):
    """With what it has started: its child would live for an hour."""
    sleeper = "[sys.executable, '-c', 'import time; time.sleep(3600)']"
    text = f"import subprocess, sys\nprint(subprocess.Popen({sleeper}).pid, flush=True)\n{READY}time.sleep(3600)"
    with (
        pytest.raises(VllmFailed, match="vLLM was playing one for more than 0.5 s, and was ended"),
        child(tmp_path, text) as process,
    ):
        process.wait_ready(60)
        process.play({"play": "one"}, 0.5)
    assert process.process.returncode is not None
    grandchild = int((tmp_path / "vllm.log").read_text().split()[0])
    assert not _lives(grandchild)


def _lives(process: int) -> bool:
    """A zombie, which waits for a parent that has gone, does not."""
    for _ in range(100):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False).stdout
        if not state.strip() or state.strip().startswith("Z"):
            return False
        time.sleep(0.1)
    return True


def test_the_reason_is_the_root_cause(tmp_path: Path):
    (tmp_path / "vllm.log").write_text(
        "(EngineCore pid=1) ERROR [core.py:1] KeyError: 'a'\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )
    assert reason(tmp_path / "vllm.log") == "KeyError: 'a'"
    (tmp_path / "vllm.log").write_text("first\nlast words\n\n")
    assert reason(tmp_path / "vllm.log") == "last words"
    (tmp_path / "vllm.log").write_text("")
    assert reason(tmp_path / "vllm.log") == "it said nothing"


def answering(monkeypatch: pytest.MonkeyPatch, **answer: str) -> None:
    monkeypatch.setattr(interpreter, "_ask", lambda python, environment: answer)


def test_a_python_without_vllm_or_with_another(monkeypatch: pytest.MonkeyPatch):
    answering(monkeypatch, no_vllm="vLLM is not installed here")
    with pytest.raises(UserError, match="vllm.python=.*: vLLM is not installed here; vllm.python=PATH names"):
        interpreter.find(None)
    answering(monkeypatch, version="0.21")
    with pytest.raises(UserError, match="vLLM 0.21 is installed there; runs are recorded with 0.32"):
        interpreter.find("python")
    answering(monkeypatch, version="0.32")
    assert interpreter.find("python").version == "0.32"


SMALL = ["trace=synthetic", "trace.prompt_tokens=8", "trace.output_tokens=4", "trace.num_requests=2", "model=tiny"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["vllm.python=/nowhere/python"], "vllm.python=/nowhere/python: no such file or directory"),
        (["scheduler.async_scheduling=true"], "scheduler.async_scheduling=true: runs can be replayed with false alone"),
        (["policy=vtc"], "policy=vtc: policy Vtc has on_"),
        (
            ["trace.prompt_tokens=2000", "trace.max_prompt_tokens=null"],
            "request 0 can never be served: prompt of 2000 tokens leaves no room",
        ),
        (["system=vllm-0.21"], "vLLM 0.32 is compared, whose rules are those of system=vllm-0.32"),
        (["predictor=history", "policy=sjf"], "predictor=history: it learns while it serves"),
        (["validate.loads=0.5,0.5"], "each of them once"),
        (["vllm.cores=x"], "vllm.cores=['x']: must be numbers of cores"),
        (["vllm.clock=cpu", "vllm.threads=2"], "vllm.clock=cpu: counts the time of one thread"),
        (["vllm.clok=cpu"], "vllm.clok"),
        (["trace.arrivals=closed(2,think=0)"], "it has closed"),
        (["policy.preemption_mode=swap"], "vLLM recomputes"),
    ],
)
def test_mistakes_are_one_line_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], told: str
):
    monkeypatch.chdir(tmp_path)
    given = {word.partition("=")[0]: word for word in (*SMALL, *words)}
    assert main(["validate", "engine=vllm", *given.values()]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and told in error, error
    assert list(tmp_path.iterdir()) == []
