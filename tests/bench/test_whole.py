"""The benchmark of whole runs runs and its parts add up; how fast they are, is no test's business."""

import subprocess
import sys
from pathlib import Path

WHOLE = Path(__file__).resolve().parents[2] / "bench" / "whole.py"


def test_it_prints_a_row_a_case_and_system_whose_parts_make_the_whole(tmp_path: Path):
    words = ["--cases", "plain 1k", "--systems", "textbook", "--runs", "1"]
    done = subprocess.run([sys.executable, WHOLE, *words], capture_output=True, text=True, check=True, cwd=tmp_path)
    lines = done.stdout.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| case"))
    (row,) = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[head + 2 :])
    assert row[:3] == ["plain 1k", "1,000", "textbook"]
    assert len(row) == len(lines[head].strip("|").split("|")) == len(lines[head + 1].strip("|").split("|"))
    start_up, loop, rest, whole, cpu, peak, ratio = (float(cell.replace(",", "")) for cell in row[3:])
    assert min(start_up, loop, rest, cpu, ratio) > 0 and peak > 20
    assert abs(start_up + loop + rest - whole) < 0.02
    assert "Python" in lines[0]
