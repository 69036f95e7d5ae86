"""`twin validate engine=vllm recorded=...` as a user calls it."""

import csv
import json
from pathlib import Path

import pytest

from tests.engine.ground_truth.small import chunked, edit, preempting
from twin.cli.main import main


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def validate(*words: str) -> int:
    return main(["validate", "engine=vllm", *words])


def test_one_run(capsys):
    chunked(Path("run"))
    assert validate("recorded=run", "hydra.run.dir=out") == 0
    printed = capsys.readouterr().out
    assert "decisions identical in 4 of 4 steps; nothing predicted" in printed
    assert "note: run: there is no other run like it to fit step times to" in printed
    found = json.loads(Path("out/validation.json").read_text())
    assert found["valid"] and found["lockstep"]["run"] == {
        "steps": 4, "identical": 4, "first_difference": None, "requests_that_differ": []
    }  # fmt: skip
    assert list(csv.DictReader(Path("out/errors.csv").open())) == []
    assert "vLLM and the simulator" in Path("out/report.html").read_text()


def test_a_difference_is_told_with_both_states_and_fails(capsys):
    edit(chunked(Path("run")) / "decided.jsonl", '["B", 4, 2]', '["B", 3, 2]')
    assert validate("recorded=run", "hydra.run.dir=out") == 1
    printed = capsys.readouterr().out
    assert "run: step 1 (at 0.031000 s) differs in scheduled" in printed
    assert "  vLLM: scheduled {'A': 1, 'B': 3}; computed" in printed
    assert "  simulator: scheduled {'A': 1, 'B': 4}; computed" in printed
    assert "WRONG: run: decisions differ first in step 1 of 4" in printed
    assert "decisions identical in 1 of 4 steps" in printed
    found = json.loads(Path("out/validation.json").read_text())
    assert not found["valid"] and found["lockstep"]["run"]["first_difference"]["step"] == 1


def test_too_few_steps_to_fit_are_told(capsys):
    chunked(Path("runs/one"))
    preempting(Path("runs/two"))
    assert validate("recorded=runs", "hydra.run.dir=out") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "different steps are too few for" in error
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["recorded="], "recorded=: empty; it is a folder"),
        (["recorded=nowhere"], "recorded: nowhere: no such folder"),
        (["recorded=run", "recorded=run"], "recorded= is given twice"),
        (["recorded=run", "fit=other"], "fit=other: no run of that name; there are run"),
        (["recorded=run", "fit=run", "predict=run"], "predict=run: the step model is fitted to it"),
        (["recorded=run", "cache.block_size=16"], "cache.block_size=16: not with recorded=, where the recording says"),
        (["recorded=run", "validate.ttft.mean=-1"], "validate.ttft.mean=-1: must be a number of at least 0"),
        (["recorded=run", "validate.tft.mean=1"], "validate.tft.mean"),
        (["recorded=run", "hydra.run.dir="], "hydra.run.dir: empty"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(words, told, capsys):
    chunked(Path("run"))
    assert validate(*words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and told in error
    assert sorted(path.name for path in Path().iterdir()) == ["run"]


def test_help_names_its_own_options(capsys):
    assert validate("--help") == 0
    printed = capsys.readouterr().out
    assert "recorded=?" in printed and "validate.ttft.mean=0.04" in printed and "fit=?" in printed


def test_the_same_recording_gives_the_same_bytes():
    chunked(Path("run"))
    for folder in ("one", "two"):
        assert validate("recorded=run", f"hydra.run.dir={folder}", "output.report=false") == 0
    for name in ("errors.csv", "step_errors.csv", "spreads.csv", "validation.json"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes(), name
