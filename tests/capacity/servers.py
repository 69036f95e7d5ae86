"""Textbook servers on the command line, whose capacity is known: a step of one second, requests of one step."""

import csv
import json
from pathlib import Path

from twin.cli.main import main

SERVER = ("policy=fcfs", "system=textbook", "latency=linear", "latency.base_s=1", "scheduler.max_num_seqs=1",
          "trace=synthetic", "trace.prompt_tokens=1", "trace.output_tokens=1", "output.figures=false",
          "capacity.jobs=1")  # fmt: skip
CLOCKWORK = (*SERVER, "trace.arrivals=constant(1)", "trace.num_requests=101", "capacity.warmup=0", "seeds=1",
             "capacity.steady=false", "capacity.tolerance=0.002")  # fmt: skip


def searched(folder: Path, *words: str, status: int = 0) -> dict:
    """What `twin capacity` writes into capacity.json."""
    assert main(["capacity", *words, f"hydra.run.dir={folder}"]) == status
    return json.loads((folder / "capacity.json").read_text())


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as handle:
        return list(csv.DictReader(handle))
