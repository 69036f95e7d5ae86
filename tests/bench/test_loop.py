"""The benchmark of the loop runs and prints its columns; how fast it is, is no test's business."""

import subprocess
import sys
from pathlib import Path

LOOP = Path(__file__).resolve().parents[2] / "bench" / "loop.py"


def test_it_prints_a_row_a_setting_and_rate(tmp_path: Path):
    words = ["--requests", "200", "--runs", "1", "--rates", "8", "--settings", "vllm"]
    done = subprocess.run([sys.executable, LOOP, *words], capture_output=True, text=True, check=True, cwd=tmp_path)
    lines = done.stdout.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| setting"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[head + 2 :]]
    assert [row[0] for row in rows] == ["vllm"]
    for row in rows:
        assert len(row) == len(lines[head].strip("|").split("|"))
        figures = [cell for cell in row[1:] if cell != "-"]  # - where the core has not been compiled
        assert all(
            float(part) > 0 for cell in figures for part in cell.replace(",", "" if ", " not in cell else " ").split()
        )
        assert len(figures) >= len(row) - 2
    assert "Python" in lines[0]
