"""`twin validate` as a user calls it, on a tiny model. Its time is made up, so that no test hangs on how fast it is."""

import csv
import importlib.util
import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from engine.lockstep import replay
from engine.validate import laboratory
from twin.cli.main import main
from twin.latency.fitted import FittedLatency

TRACE = [
    "trace=synthetic", "trace.arrivals=poisson(5)", "trace.prompt_tokens=uniform(4,40)",
    "trace.output_tokens=uniform(4,16)", "trace.num_requests=8",
]  # fmt: skip
SMALL = [
    "model=tiny", "cache.num_gpu_blocks=40", "scheduler.max_num_seqs=3", "engine.threads=1", "engine.skip_idle=true",
    "engine.clock=cpu", "engine.scale=none", "validate.loads=0.7,1.3", "validate.repeats=1", "attention=torch", *TRACE,
]  # fmt: skip
FIGURES = [f"{metric}.{name}" for metric in ("ttft", "tpot", "e2e") for name in ("mean", "p50", "p90", "p99")]
NO_PICTURES = ["output.figures=false", "output.report=false"]


def tolerances(share: float) -> list[str]:
    return [f"validate.{name}={share}" for name in (*FIGURES, "throughput", "queue_slope")]


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(1)
    time_s = itertools.accumulate(iter(lambda: float(draw.uniform(5e-4, 15e-4)), None))
    monkeypatch.setattr(time, "thread_time", lambda: next(time_s))  # a millisecond or so passes between two looks
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def validate(*words: str) -> int:
    """Later words replace earlier ones of the same option."""
    given = {word.partition("=")[0]: word for word in (*SMALL, *words)}
    return main(["validate", *given.values(), "hydra.run.dir=out"])


def found() -> dict[str, Any]:
    return json.loads(Path("out/validation.json").read_text())


def rows() -> list[dict[str, str]]:
    with open("out/errors.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_all_that_a_validation_leaves(capsys: pytest.CaptureFixture[str]):
    """With tolerances that nothing can miss it is valid, and says so in each of its files."""
    assert validate(*tolerances(1e9)) == 0
    told = capsys.readouterr().out
    result = found()
    assert result["valid"] and result["complete"] and result["outside"] == []
    below, above = result["cells"]
    for cell in (below, above):
        assert cell["decisions_identical"] is True and cell["first_difference"] is None and cell["steps_compared"] > 8
        assert cell["requests_per_s"] == pytest.approx(cell["load"] * result["capacity"]["synthetic"]["requests_per_s"])
        assert cell["simulator"]["finished"] == 8 and [run["finished"] for run in cell["engine"]] == [8]
    assert len(below["errors"]) == 13 and [row["metric"] for row in above["errors"]] == ["throughput", "queue_slope"]
    assert [row["verdict"] for row in rows()] == ["within tolerance"] * 14 + ["not defined"]  # 8 arrivals are no trend
    assert {each["region"] for each in result["step_errors"]} >= {"decode", "all"}
    assert "decisions identical in all of 2 lockstep runs" in told and "all 14 figures right" in told
    assert "fcfs on synthetic: capacity " in told and told.endswith("written to out\n")
    pictures = {path.name for path in Path("out/figures").iterdir()}
    assert pictures == {"parity_fcfs_synthetic.png", "load_fcfs_synthetic.png", "residuals.png"}
    page = Path("out/report.html").read_text()
    assert page.count("<svg") == 3 and "decisions identical" in page and " src=" not in page  # it loads nothing
    model = FittedLatency(yaml.safe_load(Path("out/latency.yaml").read_text()))
    assert model.describe()["coefficients"] == result["latency"]["coefficients"] and model.about["gpu"] == "cpu"


def test_a_figure_outside_its_tolerance_is_exit_status_1_and_named(capsys: pytest.CaptureFixture[str]):
    """One run has no spread, and no simulator has the engine's times to the last bit."""
    assert validate(*tolerances(1e9), "validate.e2e.mean=0", *NO_PICTURES) == 1
    result = found()
    assert not result["valid"] and [row["metric"] for row in rows() if row["verdict"] == "OUTSIDE"] == ["e2e mean"]
    (line,) = result["outside"]
    assert line.startswith("fcfs on synthetic, load 0.7: e2e mean off by ") and line.endswith("tolerance 0 %")
    assert "1 of 14 figures OUTSIDE their tolerances; decisions identical in all" in capsys.readouterr().out
    assert not Path("out/report.html").exists() and not Path("out/figures").exists()


def test_a_decision_that_differs_is_exit_status_1_with_both_states(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def crooked(*about: Any) -> Any:
        again = replay(*about)
        again[4]["free_blocks"] += 1
        return again

    monkeypatch.setattr(laboratory, "replayed", crooked)
    assert validate(*tolerances(1e9), *NO_PICTURES, "validate.loads=0.7") == 1
    told = capsys.readouterr().out
    assert "step 5 differs in free_blocks" in told and "  engine: {'free_blocks'" in told
    (cell,) = found()["cells"]
    assert cell["decisions_identical"] is False and cell["first_difference"]["fields"] == ["free_blocks"]


def test_several_policies_on_several_traces_with_a_model_of_the_users(capsys: pytest.CaptureFixture[str]):
    about = {"coefficients": {"base_s": 0.001}, "range": {"sequences": [1, 3]}, "source": "a guess"}
    Path("mine.yaml").write_text(yaml.safe_dump(about))
    words = [word for word in SMALL if not word.startswith(("trace.", "trace=", "validate.loads"))]
    matrix = ["validate.policies=fcfs,sjf", "validate.traces=chat,code", "predictor=oracle", "validate.loads=0.9"]
    scaled = ["engine.scale=0.02", "trace.num_requests=5", "latency.path=mine.yaml"]
    status = main(["validate", *words, *matrix, *scaled, *NO_PICTURES, *tolerances(1e9), "hydra.run.dir=out"])
    assert status == 0
    result = found()
    assert [(cell["policy"], cell["trace"]) for cell in result["cells"]] == [
        ("fcfs", "chat"), ("fcfs", "code"), ("sjf", "chat"), ("sjf", "code"),
    ]  # fmt: skip
    assert result["latency"]["source"] == "a guess" and result["steps_fitted_to"] == 0
    assert all(cell["decisions_identical"] for cell in result["cells"])
    assert result["cells"][0]["requests_per_s"] == result["cells"][2]["requests_per_s"]  # a trace has one capacity


def test_decisions_are_identical_where_memory_is_short_and_two_steps_are_in_flight():
    """Preemptions in whichever mode is cheaper: all three runs of a cell ask the same costs. The clock is the host's, and
    all come within a hundredth of the time that they take, so that memory is short however slow the host is."""
    tight = ["cache.num_gpu_blocks=20", "cache.block_size=4", "cache.num_cpu_blocks=20", "policy.preemption_mode=auto"]
    loads = ["validate.loads=100", "engine.clock=wall", "scheduler.async_scheduling=true", "scheduler.max_num_seqs=6"]
    assert validate(*tight, *loads, *tolerances(1e9), *NO_PICTURES) == 0
    (cell,) = found()["cells"]
    assert cell["decisions_identical"] and cell["engine"][0]["preemptions"] > 0 and cell["simulator"]["preemptions"] > 0


def test_ctrl_c_saves_what_has_been_played(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    played = laboratory.Laboratory.on_engine
    runs = []

    def on_engine(self: Any, *about: Any, **more: Any) -> Any:
        runs.append(about)
        if len(runs) == 8:  # warm-up, burst, two for lockstep; one to fit to, one that is judged, one to fit to, then
            signal.raise_signal(signal.SIGINT)
        return played(self, *about, **more)

    monkeypatch.setattr(laboratory.Laboratory, "on_engine", on_engine)
    assert validate(*tolerances(1e9), *NO_PICTURES) == 130
    out, err = capsys.readouterr()
    assert err == "twin validate: interrupted; what was played until then is saved\n"
    result = found()
    assert not result["complete"] and not result["valid"]
    assert [len(cell["engine"]) for cell in result["cells"]] == [1, 0]


def test_ctrl_c_before_anything_is_judged_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(laboratory.Laboratory, "on_engine", lambda *about, **more: signal.raise_signal(signal.SIGINT))
    assert validate() == 130
    assert list(tmp_path.iterdir()) == []


FAILING = '''from twin.policy import Policy


class Failing(Policy):
    """Works for a while."""

    def __init__(self, after: int = 4):
        self.calls, self.after = 0, after

    def order(self, request, view):
        self.calls += 1
        if self.calls > self.after:
            raise RuntimeError("boom")
        return request.arrival_s
'''


def test_a_policy_that_fails_is_exit_status_1_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "failing.py").write_text(FAILING)
    assert validate("policy=failing", "allow_unchecked=true") == 1
    err = capsys.readouterr().err
    assert err.startswith("twin validate: policy Failing, plan ") and "RuntimeError: boom" in err and err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["policies"]
    assert validate("policy=failing") == 2
    assert "has no certificate" in capsys.readouterr().err


def test_without_the_packages_of_the_engine_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "torch" else there(name, *more))
    assert validate() == 2
    assert capsys.readouterr().err == "twin validate: the engine needs torch: pip install 'twin-serving[engine]'\n"


def test_the_command_can_be_asked_for_help_without_them():
    """Nothing that it imports at its top needs PyTorch."""
    program = "import sys, engine.validate.command; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@pytest.mark.parametrize(
    "word, told",
    [
        ("validate.loads=0.5,zero", "validate.loads=[0.5, 'zero']: must be shares of the capacity"),
        ("validate.loads=0.5,0.5", "each of them once"),
        ("validate.repeats=0", "validate.repeats=0: must be an integer of at least 1"),
        ("validate.ttft.mean=-1", "validate.ttft.mean=-1: must be a number of at least 0"),
        ("validate.tolerance=1", "validate.tolerance"),
        ("validate.policies=nobody", "policy=nobody"),
        ("validate.traces=nothing", "nothing"),
        ("sampling.ignore_eos=false", "sampling.ignore_eos=false: the simulator cannot know when a text ends"),
        ("sampling.n=2", "sampling.n=2: must be 1 here"),
        ("seeds=3", "seeds=3: must be 1 here"),
        ("trace.arrivals=burst()", "all its requests arrive at once"),
        ("trace.arrivals=closed(4,think=0)", "trace.rate does not go with closed(...)"),
        ("latency.path=none.yaml", "latency.path=none.yaml: no such file"),
    ],
)
def test_mistakes_are_told_in_one_line_before_anything_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, word: str, told: str
):
    assert validate(word) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("twin validate: ") and told in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_names_the_options_and_an_example(capsys: pytest.CaptureFixture[str]):
    assert main(["validate", "--help"]) == 0
    told = capsys.readouterr().out
    for option in ("validate.loads", "validate.repeats", "validate.ttft.mean", "validate.queue_slope", "trace.num_requests"):
        assert option in told
    assert "example: python -m twin validate" in told
