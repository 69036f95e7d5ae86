"""Streams that are closed, full or narrow cost no results and bring no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import SMALL

ROOT = Path(__file__).resolve().parents[2]
RUN = "{python} -m twin run {words} hydra.run.dir=out"
SAVED = ["config.yaml", "requests.parquet", "steps.parquet", "summary.json"]


def shell(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess:
    words = " ".join(f"'{word}'" for word in SMALL)
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    command = line.format(python=sys.executable, words=words)
    return subprocess.run(["bash", "-c", command], capture_output=True, cwd=folder, env=environment)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path, closed):
    done = shell(f"{RUN} {closed}", tmp_path)
    assert (done.returncode, done.stderr) == (0, b"") and names(tmp_path / "out") == SAVED


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_standard_output_is_one_line_after_the_results_are_saved(tmp_path):
    done = shell(f"{RUN} > /dev/full", tmp_path)
    assert done.returncode == 2 and names(tmp_path / "out") == SAVED
    assert done.stderr == b"twin run: standard output: no space left on device\n"
    done = shell("{python} -m twin --help > /dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (2, b"twin: standard output: no space left on device\n")


def test_a_reader_that_has_enough_costs_no_results(tmp_path):
    done = shell(f"({RUN}; echo $? > status) | true", tmp_path)
    assert done.stderr == b"" and (tmp_path / "status").read_text() == "0\n" and names(tmp_path / "out") == SAVED


def test_letters_that_the_terminal_does_not_have_are_escaped(tmp_path):
    done = shell(f"{RUN} seeds=2 trace.arrivals='poisson(1)'", tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"") and b"\\xb1" in done.stdout


def test_a_working_directory_that_is_gone_is_one_line(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = shell("rmdir ../gone; {python} -m twin run", gone)
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 2 and line.startswith("twin run: the working directory: no such file or directory")
