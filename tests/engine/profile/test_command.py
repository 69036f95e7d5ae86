"""`engine profile` as a user calls it, on a tiny model."""

import json
import re
import signal
from pathlib import Path

import pytest
import torch
from pyarrow import parquet

from engine.cli.main import main
from engine.profile import contamination
from engine.profile.composition import Composition
from engine.profile.stepper import Stepper, Timing
from engine.profile.table import METADATA_KEY
from tests.docs.pages import page

SMALL = [
    "profile", "model=tiny", "model.max_model_len=64", "cache.num_gpu_blocks=64", "cache.num_cpu_blocks=8",
    "scheduler.max_num_seqs=4", "scheduler.max_num_batched_tokens=64", "attention=torch", "profile.repeats=2",
    "profile.budget_s=2", "engine.threads=1",
]  # fmt: skip


class Quiet:
    """Nobody else is there."""

    window_s = 1.0

    def __init__(self, foreign: str | None = None) -> None:
        self.foreign = foreign

    def why_not(self) -> None:
        return None

    def read(self) -> str | None:
        return self.foreign


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In a folder of its own; the steps are real, and take what a fake clock says: always the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(contamination, "load_reader", lambda device: Quiet())
    real = Stepper.measure

    def steady(self: Stepper, composition: Composition) -> Timing:
        return real(self, composition)._replace(duration_s=0.002, device_s=0.001)

    monkeypatch.setattr(Stepper, "measure", steady)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def metadata(path: Path) -> dict:
    return json.loads(parquet.read_schema(path).metadata[METADATA_KEY])


def test_a_table_and_a_summary(capsys: pytest.CaptureFixture, tmp_path: Path):
    assert main([*SMALL, "profile.to=steps.parquet,steps.csv"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^decode +\d+ +2 +2 +2$", told, re.MULTILINE)
    assert re.search(r"^\d+ rows, none contaminated$", told, re.MULTILINE)
    assert told.endswith("written to steps.parquet, steps.csv\n")
    about = metadata(tmp_path / "steps.parquet")
    assert about["complete"] and about["num_gpu_blocks"] == 64 and about["max_model_len"] == 64
    assert about["contamination"]["contaminated_rows"] == 0 and about["engine"]["threads"] == 1
    assert json.loads((tmp_path / "steps.csv.meta.json").read_text()) == about
    documented = set(re.findall(r"^\| `(\w+)` \| [^|]+ \|$", page("profile"), re.MULTILINE))
    assert set(about) <= documented


def test_the_table_lies_in_the_run_folder(tmp_path: Path):
    assert main([*SMALL, "hydra.run.dir=first"]) == 0
    assert [path.name for path in (tmp_path / "first").iterdir()] == ["profile.parquet"]


@pytest.mark.parametrize("strict, status", [("true", 1), ("false", 0)])
def test_contaminated_rows_fail_a_strict_profile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path, strict: str, status: int
):
    monkeypatch.setattr(contamination, "load_reader", lambda device: Quiet("other processes used 1.0 of 2 CPUs"))
    assert main([*SMALL, "profile.to=steps.parquet", f"profile.strict={strict}"]) == status
    assert re.search(
        r"^(\d+) of \1 rows, of \d+ points, are contaminated: other processes at work", capsys.readouterr().out, re.M
    )
    assert set(parquet.read_table(tmp_path / "steps.parquet")["contaminated"].to_pylist()) == {True}


def test_ctrl_c_saves_what_is_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path):
    interrupting(monkeypatch, lambda calls: calls > 90)
    assert main([*SMALL, "profile.to=steps.parquet", "profile.budget_s=100"]) == 130
    out, err = capsys.readouterr()
    assert err == "engine profile: interrupted; what was measured until then is saved\n"
    assert not metadata(tmp_path / "steps.parquet")["complete"]
    assert parquet.read_table(tmp_path / "steps.parquet").num_rows > 0


def test_ctrl_c_before_anything_is_measured_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    interrupting(monkeypatch, lambda calls: calls == 2)
    assert main([*SMALL, "hydra.run.dir=first"]) == 130
    assert list(tmp_path.iterdir()) == []


def interrupting(monkeypatch: pytest.MonkeyPatch, when) -> None:
    steady, calls = Stepper.measure, []

    def measure(self: Stepper, composition: Composition) -> Timing:
        calls.append(composition)
        if when(len(calls)):
            signal.raise_signal(signal.SIGINT)
        return steady(self, composition)

    monkeypatch.setattr(Stepper, "measure", measure)


@pytest.mark.parametrize(
    "word, told",
    [
        ("profile.bugdet_s=3", "profile.bugdet_s: no such option; did you mean profile.budget_s?"),
        ("profile.budget_s=0", "profile.budget_s=0: must be seconds, above 0"),
        ("profile.budget_s=nan", "profile.budget_s=nan: must be a number"),
        ("profile.repeats=2.5", "profile.repeats=2.5: must be an integer from 1 to 1000"),
        ("profile.strict=yes", "profile.strict=yes: must be true or false"),
        ("profile.to=none/steps.csv", "profile.to=none/steps.csv: there is no folder none"),
        ("profile.to=steps.xlsx", "profile.to=steps.xlsx: the name must end in .parquet or .csv"),
        ("profile.budget_s=0.000001", "profile.budget_s=1e-06: no point fits after the probes"),
        ("cache.num_gpu_blocks=0", "cache.num_gpu_blocks=0: must be"),
        ("attention=magic", "attention=magic: must be"),
        ("model=opt-13b", "the engine does not run opt"),
    ],
)
def test_mistakes_are_told_in_one_line(capsys: pytest.CaptureFixture, word: str, told: str):
    key = word.partition("=")[0]
    assert main([*(each for each in SMALL if each.partition("=")[0] != key), word]) == 2
    err = capsys.readouterr().err
    assert err.startswith("engine profile: ") and told in err and err.count("\n") == 1


def test_help_names_the_options_and_an_example(capsys: pytest.CaptureFixture):
    assert main(["profile", "--help"]) == 0
    told = capsys.readouterr().out
    for option in ("profile.to", "profile.budget_s", "profile.repeats", "profile.strict", "scheduler.max_num_seqs"):
        assert option in told
    assert "example: python -m engine profile" in told
