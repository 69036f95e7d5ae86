"""`twin report FOLDER`."""

from pathlib import Path

import pytest

from tests.results.parsed import Parsed
from twin.cli.main import main as twin

RUN = ["run", "policy=fcfs", "trace=chat", "trace.num_requests=20", "trace.rate=4", "output.figures=false"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_report_of_a_run_is_made_again_from_its_folder(capsys):
    assert twin([*RUN, "hydra.run.dir=first"]) == 0
    page = Path("first/report.html")
    made = page.read_bytes()
    page.unlink()
    capsys.readouterr()
    assert twin(["report", "first"]) == 0
    assert capsys.readouterr().out == "written to first/report.html\n"
    assert page.read_bytes() == made


def test_several_seeds_have_a_page_over_them(capsys):
    assert twin([*RUN, "seeds=3", "output.report=false", "hydra.run.dir=three"]) == 0
    assert twin(["report", "three"]) == 0
    page = Parsed(Path("three/report.html").read_text())
    assert [row[0] for row in page.tables[0]] == ["seed", "0", "1", "2"]


def test_a_sweep_has_a_page_over_its_jobs(capsys):
    swept = ["-m", "trace.rate=4,8", "hydra/launcher=basic", "hydra.sweep.dir=rates", "output.report=false"]
    assert twin([*(word for word in RUN if not word.startswith("trace.rate")), *swept]) == 0
    assert twin(["report", "rates"]) == 0
    page = Parsed(Path("rates/report.html").read_text())
    assert [row[0] for row in page.tables[0]] == ["trace.rate", "4", "8"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give a folder"),
        (["nowhere"], "nowhere: no such folder"),
        (["empty"], "empty is not the folder of a run: config.yaml is missing"),
        (["broken"], "broken/sweep.parquet"),
        (["-x"], "-x: no such option"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], said: str, capsys):
    Path("empty").mkdir()
    Path("broken").mkdir()
    Path("broken/sweep.parquet").write_text("no table")
    assert twin(["report", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not list(Path().glob("*/report.html"))
