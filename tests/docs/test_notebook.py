"""docs/notebook.md: its examples run, one after the other as in a notebook."""

from pathlib import Path

import pytest

from tests.docs.pages import blocks, page
from twin.notebook.plots import Plots
from twin.notebook.result import Run


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    cells: dict = {}
    for number, block in enumerate(blocks("notebook", "python")):
        exec(compile(block, f"<cell {number}>", "exec"), cells)
    printed = capsys.readouterr().out
    assert "python -m twin run policy=vtc" in printed and "did you mean srpt?" in printed
    assert cells["run"].summary["finished"] == 500 and Path("latency.png").exists()
    assert len(cells["per_seed"]) == 3 and cells["mine"].summary["finished"] == 300


def test_everything_that_a_run_has_is_in_the_table():
    own = [name for name in (*vars(Run), *vars(Plots)) if not name.startswith("_")]
    for name in (*own, "summary", "config", "notes", "lines", "decisions"):
        assert f"run.{name}" in page("notebook") or f"run.plot.{name}" in page("notebook"), name
