"""docs/predictors.md: its example runs, its commands work, its tables name what there is."""

import re
import shlex
from pathlib import Path

import pytest

from tests.docs.pages import blocks, page
from twin.cli.main import main
from twin.predictor import Predictor
from twin.predictors_registry import find, names
from twin.results.load import load_run

QUICK = ("output.figures=false", "output.report=false", "hydra.run.dir=out")


@pytest.mark.parametrize("command", blocks("predictors", "bash"))
def test_the_commands_of_the_page_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "predictors").mkdir()
    (tmp_path / "predictors" / "by_prompt.py").write_text(blocks("predictors", "python")[0])
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "twin"]
    assert main([*words[3:], *QUICK]) == 0
    done = load_run("out")
    assert done.summary["finished"] == done.summary["requests"] == 500
    chosen = next(word.removeprefix("predictor=") for word in words if word.startswith("predictor="))
    assert done.config["provenance"]["predictor"] == find(chosen).provenance()


def test_every_predictor_is_in_the_table_with_all_its_parameters_and_defaults():
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", page("predictors").partition("## The same")[0], re.MULTILINE))
    assert sorted(rows) == names()
    for name, row in rows.items():
        for parameter in find(name).parameters:
            default = "null" if parameter.default is None else parameter.default
            shown = f"{default:g}" if name in ("history", "constant") and isinstance(default, float) else str(default)
            assert re.search(rf"`{parameter.name}` \({shown}\b", row), (name, parameter.name, shown)


def test_every_method_and_declaration_is_in_the_table():
    own = [name for name in vars(Predictor) if not name.startswith("_")]
    assert len(own) >= 8
    for name in own:
        assert re.search(rf"^\| .*`(self\.)?{name}\b", page("predictors"), re.MULTILINE), name
