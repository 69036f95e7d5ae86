"""`engine run` with a fitted latency model says when its steps take longer, or less long, than that says."""

from pathlib import Path

import pytest
import torch
import yaml

from engine.cli.main import main

RUN = [
    "run", "model=tiny", "cache.num_gpu_blocks=60", "trace=synthetic", "trace.arrivals=burst()", "trace.num_requests=4",
    "trace.prompt_tokens=constant(4)", "trace.output_tokens=constant(150)", "engine.threads=1", "engine.scale=none",
    "output.figures=false", "output.report=false", "attention=torch", "latency=fitted", "hydra.run.dir=out",
]  # fmt: skip


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def told(capsys: pytest.CaptureFixture[str], step_s: float, most: int = 8) -> str:
    """What a run of 150 steps says beside a model by which each takes so long."""
    about = {"coefficients": {"base_s": step_s}, "range": {"sequences": [1, most]}, "source": "a test", "spread": 0.05}
    Path("steps.yaml").write_text(yaml.safe_dump(about))
    assert main([*RUN, "latency.path=steps.yaml"]) == 0
    return capsys.readouterr().out


def test_steps_that_take_a_thousand_times_as_long_as_predicted(capsys: pytest.CaptureFixture[str]):
    out = told(capsys, 1e-7)
    assert "note: drift: from 0.0 s on steps take " in out and "longer than the latency model says" in out
    command = "python -m twin calibrate profile=out/steps.parquet"
    assert f"note: drift: {command} fits the latency model to this run's steps" in out
    warnings = yaml.safe_load(Path("out/config.yaml").read_text())["provenance"]["warnings"]
    assert any(command in line for line in warnings)


def test_steps_that_take_far_less(capsys: pytest.CaptureFixture[str]):
    assert "from 0.0 s on steps take 100% shorter than the latency model says" in told(capsys, 100.0)


def test_steps_beyond_the_range_of_the_model_are_not_judged(capsys: pytest.CaptureFixture[str]):
    """It was fitted to steps of one sequence, and there are four in each."""
    assert "drift" not in told(capsys, 100.0, most=1)
