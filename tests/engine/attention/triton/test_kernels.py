"""kernel_tests.py, in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.engine.triton_process import run_on_the_gpu, run_under_the_interpreter

pytest.importorskip("triton")

TESTS = Path(__file__).with_name("kernel_tests.py")


def test_under_the_interpreter() -> None:
    run_under_the_interpreter(TESTS)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_on_the_gpu() -> None:
    run_on_the_gpu(TESTS)
