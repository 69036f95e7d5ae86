"""The run folder is claimed before the run: created, tried, never shared by accident, nothing left on failure."""

from pathlib import Path

import pytest

from twin.cli.errors import UserError
from twin.cli.folder import claim


def test_two_runs_of_one_second_get_two_folders(tmp_path: Path):
    wanted = tmp_path / "outputs" / "2026-01-02" / "03-04-05"
    assert [claim(wanted, given=False).name for _ in range(3)] == ["03-04-05", "03-04-05-2", "03-04-05-3"]


def test_a_folder_that_was_named_is_used_again(tmp_path: Path):
    wanted = tmp_path / "mine"
    assert claim(wanted, given=True) == claim(wanted, given=True) == wanted
    assert list(wanted.iterdir()) == []


@pytest.mark.parametrize("given", [True, False])
def test_a_file_in_the_way_is_named_and_nothing_is_left(tmp_path: Path, given: bool):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"hydra.run.dir=.*file/sub/run: cannot be written to \(not a directory\)"):
        claim(tmp_path / "file" / "sub" / "run", given)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_of_that_name_is_no_folder(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="not a directory"):
        claim(tmp_path / "file", given=True)


def test_folders_made_in_vain_are_removed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(UserError, match="no space left on device"):
        claim(tmp_path / "a" / "b" / "c", given=True)
    assert list(tmp_path.iterdir()) == []
