"""Step durations read from what an engine or the simulator recorded."""

import csv
import gzip
import json
from collections.abc import Iterator
from pathlib import Path


def read_durations(path: str | Path) -> list[float]:
    """Seconds of the steps in a file, in order.

    Takes `steps.parquet` or a CSV with `duration_s` (and `repeat`) or with `start_s` and `end_s`, and the step lines of a
    scenario or of `decisions.jsonl.gz`. Plans of no duration are left out: no step was run for them.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"latency.path={path}: no such file; give recorded steps as .parquet, .csv, .jsonl or .jsonl.gz")
    if path.suffix == ".parquet":
        return list(from_parquet(path))
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(from_rows(csv.DictReader(file), path))
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            return list(from_rows((json.loads(line) for line in file if '"start_s"' in line), path))
    raise ValueError(f"latency.path={path}: cannot tell the format; give .parquet, .csv, .jsonl or .jsonl.gz")


def from_parquet(path: Path) -> Iterator[float]:
    import pandas as pd

    return from_rows(pd.read_parquet(path).to_dict("records"), path)


def from_rows(rows: object, path: Path) -> Iterator[float]:
    for number, row in enumerate(rows, 1):  # type: ignore[var-annotated, arg-type]
        if "duration_s" not in row and not ("start_s" in row and "end_s" in row):
            raise ValueError(f"{path}: missing column duration_s (or start_s and end_s)")
        try:
            repeat = int(row.get("repeat") or 1)
            duration = float(row["duration_s"]) if "duration_s" in row else float(row["end_s"]) - float(row["start_s"])
        except (TypeError, ValueError):
            raise ValueError(f"{path}, step {number}: duration_s is not a number") from None
        if duration:
            yield from [duration / repeat] * repeat
