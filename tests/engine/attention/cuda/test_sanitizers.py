"""The emulated kernels under AddressSanitizer and UndefinedBehaviorSanitizer."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from engine.attention.cuda.build import SOURCE, shape_flags
from engine.attention.fp8 import FP8
from tests.engine.attention.cuda.emulated import compile_with_gxx, mutated_source

PROGRAM = Path(__file__).parent / "sanitized.cpp"
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1"]
RUN_TIMEOUT_S = 120


def run_sanitized(folder: Path, head_dim: int, cache_dtype: torch.dtype, source: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine")
    program = folder / "sanitized"
    include = ["-I", str(source.parent), str(PROGRAM)]
    compile_with_gxx([*SANITIZERS, *shape_flags(head_dim, cache_dtype), *include], program)
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}  # leaks are for ptrace, which containers may forbid
    return subprocess.run(
        [str(program)], capture_output=True, text=True, timeout=RUN_TIMEOUT_S, env=environment, check=False
    )


def test_nothing_is_touched_that_is_not_theirs(tmp_path):
    """CUDA cores with idle lanes (rows of 96 bytes), tensor cores with one tile of heads and with two."""
    done = run_sanitized(tmp_path, 96, FP8, SOURCE)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr[:4000]


def test_a_partial_result_past_the_buffer_is_seen(tmp_path):
    source = mutated_source(tmp_path, "decode.cuh", "(row * a.splits + blockIdx.z)", "(row * a.splits + blockIdx.z + 1)")
    done = run_sanitized(tmp_path, 64, torch.float32, source)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr and "decode.cuh" in done.stderr
