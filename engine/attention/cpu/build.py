"""The C++ library of the CPU back end, built by g++ on first use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.native_build import build, cpu_model

FOLDER = Path(__file__).parent
SOURCES = [FOLDER / name for name in ("paged_attention.cpp", "layer_ops.cpp", "linear.cpp")]
HEADERS = [FOLDER / "vectors.h"]
# No -ffast-math: infinities mask, and NaN must come out where it went in.
COMMAND = (
    "g++", "-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fopenmp",
    "-shared", "-fPIC", "-Wno-psabi",
)  # fmt: skip


def cpu_library(more_flags: Sequence[str] = ()) -> Path:
    """The built library. EngineError where this machine has no g++, or one that cannot build it."""
    return build(SOURCES, [*COMMAND, *more_flags], [cpu_model()], "cpu", HEADERS)
