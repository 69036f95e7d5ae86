"""What lies in the way of a run's files is told before the simulation; a disk that fills up costs pictures, not numbers."""

from pathlib import Path

import pytest

from tests.cli.commands import SMALL, complaint
from twin.cli.main import main


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_disk_that_is_full_for_the_pictures_keeps_the_numbers(capsys, monkeypatch):
    import twin.results.style

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(twin.results.style, "save_png", full)
    assert main(["run", *SMALL, "output.figures=true", "hydra.run.dir=out"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot write out/figures/" in line and line.endswith("No space left on device; the numbers of the run are saved")
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "config.yaml",
        "requests.parquet",
        "steps.parquet",
        "summary.json",
    ]


@pytest.mark.parametrize(
    "name", ["report.html", "summary.json", "decisions.jsonl.gz", "figures/load.png", "steps.parquet", "timeline.json.gz"]
)
def test_a_folder_in_the_place_of_a_file_is_told_before_the_simulation(capsys, own_folder, name):
    (own_folder / "out" / name).mkdir(parents=True)
    line = complaint(capsys, *SMALL, "hydra.run.dir=out")
    assert f"hydra.run.dir=out: cannot write out/{name}: a folder of that name is in the way" in line


def test_a_file_in_the_place_of_the_figures_folder_is_told_before_the_simulation(capsys, own_folder):
    (own_folder / "out").mkdir()
    (own_folder / "out" / "figures").write_text("")
    assert "out/figures: a file of that name is in the way" in complaint(capsys, *SMALL, "hydra.run.dir=out")
