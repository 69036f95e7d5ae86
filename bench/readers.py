"""Seconds and memory of reading traces.

    python bench/readers.py [AZURE_CONVERSATION_CSV] [--rows 5000000]

The Azure conversation file is read in well under 0.3 s. A file in the form of BurstGPT of that many rows is made in a
temporary folder: memory must be that of the columns (24 bytes a request), twice while they are put together, and not that
of the file as Python objects.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from traces import open_trace

AT_ONCE = 100_000


def burstgpt(path: Path, rows: int) -> None:
    """A file of that many rows with lengths up to 2,000 and whole-second times."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n")
        for begin in range(0, rows, AT_ONCE):
            count = min(AT_ONCE, rows - begin)
            prompts, outputs = rng.integers(1, 2000, count).tolist(), rng.integers(0, 900, count).tolist()
            file.writelines(
                f"{begin + row},ChatGPT,{prompt},{output},{prompt + output},Conversation log\n"
                for row, (prompt, output) in enumerate(zip(prompts, outputs, strict=True))
            )


def report(path: Path) -> None:
    """Prints what reading the file costs."""
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    trace = open_trace("file", str(path))
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{path.name}: {len(trace):,} requests, {path.stat().st_size / 2**20:,.0f} MiB in {seconds:.2f} s")
    columns = 24 * len(trace) / 2**20
    print(f"  peak memory {before / 1024:,.0f} MiB before, {after / 1024:,.0f} MiB after; columns {columns:,.0f} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("azure", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=5_000_000)
    arguments = parser.parse_args()
    if arguments.azure:
        report(arguments.azure)
    with tempfile.TemporaryDirectory() as folder:
        burstgpt(Path(folder) / "burstgpt.csv", arguments.rows)
        report(Path(folder) / "burstgpt.csv")
