"""Tests of Triton kernels run in processes of their own: TRITON_INTERPRET counts when kernels are imported, for good."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 540
ROOT = Path(__file__).parents[2]


def run_under_the_interpreter(*tests: Path) -> None:
    _run(*tests, TRITON_INTERPRET="1", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")


def run_on_the_gpu(*tests: Path) -> None:
    _run(*tests, TRITON_INTERPRET="0")


def _run(*tests: Path, **environment: str) -> None:
    """All tests of the files pass, none is skipped."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", *map(str, tests)]
    answer = subprocess.run(
        command, env=os.environ | environment, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert re.search(r"^\d+ passed(, \d+ warnings?)? in", answer.stdout, re.MULTILINE), answer.stdout
