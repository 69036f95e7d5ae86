"""The C++ library of the CPU back end, built by g++ on first use."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from engine.native_build import build, cpu_model

FOLDER = Path(__file__).parent
SOURCES = [FOLDER / name for name in ("paged_attention.cpp", "write_kv.cpp", "layer_ops.cpp", "linear.cpp")]
HEADERS = [FOLDER / name for name in ("vectors.h", "product.h")]
# No -ffast-math: infinities mask, and NaN must come out where it went in.
COMMAND = (
    "g++", "-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fopenmp",
    "-shared", "-fPIC", "-Wno-psabi",
)  # fmt: skip
# g++ halves vectors for processors that it does not know to have whole ones.
X86_FLAGS = ("-mprefer-vector-width=512",) if platform.machine() in ("x86_64", "AMD64") else ()


def cpu_library(more_flags: Sequence[str] = ()) -> Path:
    """The built library. EngineError where this machine has no g++, or one that cannot build it."""
    return build(SOURCES, [*COMMAND, *X86_FLAGS, *more_flags], [cpu_model()], "cpu", HEADERS)
