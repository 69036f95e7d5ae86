"""The benchmark of the generators runs, and prints a row a trace."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench" / "generators.py"


def test_a_row_for_each_trace():
    words = [sys.executable, str(BENCH), "--requests", "50", "--traces", "chat", "synthetic"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60, cwd=BENCH.parents[1])
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [row[1].strip() for row in rows] == ["trace", "chat", "synthetic"]
    assert all(float(cell.replace(",", "")) > 0 for row in rows[1:] for cell in row[2:4])
