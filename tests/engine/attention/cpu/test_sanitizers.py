"""Nothing is read or written outside its tensor, and nothing undefined is done: AddressSanitizer and UBSan watch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.attention.cpu.backend import CpuAttention

ROOT = Path(__file__).resolve().parents[4]


def runtime(name: str) -> str | None:
    """The run-time library of a sanitizer; None where this compiler has none."""
    if CpuAttention.why_not() is not None:
        return None
    answer = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, timeout=30, check=True)
    path = answer.stdout.strip()
    return path if os.path.isabs(path) else None


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or runtime("libasan.so") is None or runtime("libubsan.so") is None,
    reason="no g++ with sanitizers on this machine",
)


def sanitized(*words: str) -> subprocess.CompletedProcess[str]:
    preload = f"{runtime('libasan.so')} {runtime('libubsan.so')}"
    options = "detect_leaks=0:abort_on_error=0:exitcode=99"  # Python and torch keep what they allocate
    environment = os.environ | {
        "LD_PRELOAD": preload,
        "ASAN_OPTIONS": options,
        "PYTHONPATH": str(ROOT),
        "OMP_WAIT_POLICY": "passive",
    }
    command = [sys.executable, "-m", "tests.engine.attention.cpu.sanitized", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_small_cases_are_clean():
    done = sanitized()
    assert (done.returncode, done.stdout) == (0, "clean\n"), done.stderr[-3000:]


def test_a_read_past_the_end_would_be_seen():
    done = sanitized("wrong")
    assert done.returncode == 99 and "AddressSanitizer: heap-buffer-overflow" in done.stderr, done.stderr[-3000:]
