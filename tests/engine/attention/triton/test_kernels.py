"""kernel_tests.py, in processes of their own: TRITON_INTERPRET counts when kernels are imported, for the whole process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

TESTS = Path(__file__).with_name("kernel_tests.py")
TIMEOUT_S = 540


def run_tests(**environment: str) -> None:
    """All of them pass, none is skipped."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", str(TESTS)]
    answer = subprocess.run(
        command, env=os.environ | environment, cwd=TESTS.parents[4], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert re.search(r"^\d+ passed in", answer.stdout, re.MULTILINE), answer.stdout


def test_under_the_interpreter() -> None:
    run_tests(TRITON_INTERPRET="1", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_on_the_gpu() -> None:
    run_tests(TRITON_INTERPRET="0")
