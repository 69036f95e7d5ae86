"""A small run from the command line, each figure of which can be told by hand, and what is said of one that is refused."""

import json
from pathlib import Path

import pytest

from twin.cli.main import main

PLAIN = ["output.figures=false", "output.report=false"]
SMALL = [
    "system=textbook",
    "latency=linear",
    "latency.base_s=1",
    "trace=synthetic",
    "trace.arrivals=constant(0.1)",
    "trace.prompt_tokens=16",
    "trace.output_tokens=3",
    "trace.num_requests=20",
    *PLAIN,
]


def run(*words: str, folder: str = "out") -> dict:
    """The summary of a small run that must end well."""
    assert main(["run", *SMALL, *words, f"hydra.run.dir={folder}"]) == 0
    return json.loads(Path(folder, "summary.json").read_text())


def complaint(capsys: pytest.CaptureFixture, *words: str) -> str:
    """The one line of a run that must be refused with nothing written."""
    before = _files()
    assert main(["run", *words]) == 2
    output = capsys.readouterr()
    assert output.out == "" and len(output.err.splitlines()) == 1
    assert _files() == before
    return output.err


def _files() -> list[Path]:
    return [path for path in sorted(Path.cwd().rglob("*")) if "__pycache__" not in path.parts]
