"""docs/capacity.md: its commands work, its objectives and options are those that there are."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.docs.pages import blocks, page
from twin.capacity.objectives import METRICS, PER_REQUEST, STATISTICS
from twin.cli.compose import compose
from twin.cli.main import main

QUICK = ("trace.num_requests=60", "seeds=2", "capacity.tolerance=0.5", "capacity.jobs=1", "output.figures=false")


@pytest.mark.parametrize("command", blocks("capacity", "bash"))
def test_the_commands_of_the_page_work(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:3] == ["python", "-m", "twin"]
    words = [word for word in words[3:] if not word.startswith("trace.num_requests")]
    assert main([*words, *QUICK, "hydra.run.dir=out"]) == 0
    assert json.loads(Path("out", "capacity.json").read_text())["outcome"] == "found"


def test_objectives_and_options_are_those_of_the_page():
    text = page("capacity")
    values = compose([], root="capacity").values
    named = {"attainment", "itl_p99_decode_steps", *PER_REQUEST, *(f"{m}_{s}" for m in METRICS for s in STATISTICS)}
    assert set(values["slo"]) == named
    for name in (*METRICS, *STATISTICS, *PER_REQUEST, "slo.attainment", "slo.itl_p99_decode_steps"):
        assert re.search(rf"`(slo\.)?{re.escape(name)}[`=]", text), name
    for option in values["capacity"].keys() - {"confidence"}:
        assert f"`capacity.{option}" in text, option
