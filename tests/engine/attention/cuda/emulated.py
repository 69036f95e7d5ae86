"""Building the CUDA source with g++, for the emulation on the host."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import torch

from engine.attention.cuda.build import SOURCE, shape_flags
from engine.attention.cuda.library import Kernels

BUILD_TIMEOUT_S = 300
FLAGS = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]


def emulated_library(folder: Path, head_dim: int, cache_dtype: torch.dtype, source: Path = SOURCE) -> Path:
    """A library of `source` for the CPU, in `folder`."""
    library = folder / f"{source.parent.name}-{head_dim}-{str(cache_dtype).removeprefix('torch.')}.so"
    compile_with_gxx(["-shared", "-fPIC", *shape_flags(head_dim, cache_dtype), "-x", "c++", str(source)], library)
    return library


def compile_with_gxx(arguments: list[str], output: Path) -> None:
    command = ["g++", *FLAGS, *arguments, "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr


def mutated_source(folder: Path, file: str, old: str, new: str) -> Path:
    """The CUDA source in `folder`, with `old`, which stands in `file` once, replaced."""
    for path in SOURCE.parent.glob("*.*"):
        if path.suffix in (".cu", ".cuh", ".h"):
            text = path.read_text()
            if path.name == file:
                assert text.count(old) == 1, f"{file} has {text.count(old)} times: {old}"
                text = text.replace(old, new)
            (folder / path.name).write_text(text)
    return folder / SOURCE.name


def set_seed(kernels: Kernels, seed: int) -> None:
    """Of the order in which emulated threads go on."""
    kernels._library.emulation_seed(ctypes.c_uint(seed))
