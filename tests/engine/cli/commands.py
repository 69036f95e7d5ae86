"""What the tests of the command line share: a run that takes no time, and a look at what it left."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import main

TRACE = [
    "trace=synthetic", "trace.arrivals=poisson(400)", "trace.prompt_tokens=uniform(1,40)",
    "trace.output_tokens=uniform(8,24)", "trace.num_requests=12",
]  # fmt: skip
ENGINE = ["engine.threads=1", "engine.skip_idle=true", "engine.scale=none"]
PLAIN = ["output.figures=false", "output.report=false"]
SMALL = ["model=tiny", "cache.num_gpu_blocks=60", *TRACE, *ENGINE, *PLAIN]
TIGHT = ["cache.num_gpu_blocks=20", "cache.block_size=4", "trace.arrivals=burst()"]  # a pool that preempts


def run(*words: str, folder: str = "out") -> dict[str, Any]:
    """The summary of a small run that must end well."""
    assert main(["run", *SMALL, *words, f"hydra.run.dir={folder}"]) == 0
    return summary(folder)


def summary(folder: str = "out") -> dict[str, Any]:
    return json.loads(Path(folder, "summary.json").read_text())


def lines(path: str) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def tokens(folder: str = "out") -> dict[str, list[int]]:
    """What came out, by request."""
    return {line["request_id"]: line["tokens"] for line in lines(f"{folder}/tokens.jsonl.gz")}


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a command that must be refused with nothing written."""
    before = sorted(Path.cwd().rglob("*"))
    assert main(list(words)) == 2
    output = capsys.readouterr()
    assert output.out == "" and len(output.err.splitlines()) == 1
    assert sorted(Path.cwd().rglob("*")) == before
    return output.err
