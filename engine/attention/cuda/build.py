"""The libraries of kernels: one for each head dim, dtype of the cache and architecture, built by nvcc on first use."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch

from engine.attention.fp8 import FP8
from engine.errors import EngineError
from engine.native_build import build

SOURCE = Path(__file__).parent / "paged_decode.cu"
HEADERS = tuple(sorted(SOURCE.parent.glob("*.cuh")))
HEAD_DIMS = (64, 96, 128, 256)
DTYPE_CODES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, FP8: 3}  # enum Dtype of numbers.cuh
OLDEST_CAPABILITY = (8, 0)  # the tensor-core instruction for bf16
NVCC_FLAGS = ("-std=c++17", "-O3")
USUAL_HOME = "/usr/local/cuda"


def shape_flags(head_dim: int, cache_dtype: torch.dtype) -> list[str]:
    """What makes the source one for this shape. EngineError where it has no kernel for it."""
    if head_dim not in HEAD_DIMS:
        dims = ", ".join(map(str, HEAD_DIMS))
        raise EngineError(
            f"attention=cuda has kernels for head dims {dims}, not {head_dim}: choose attention=triton or attention=torch"
        )
    if cache_dtype not in DTYPE_CODES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPE_CODES)
        raise EngineError(f"attention=cuda reads caches of {names}, not of {str(cache_dtype).removeprefix('torch.')}")
    return [f"-DHEAD_DIM={head_dim}", f"-DCACHE_DTYPE={DTYPE_CODES[cache_dtype]}"]


def find_nvcc() -> str:
    """The CUDA compiler: on PATH, or where CUDA_HOME, CUDA_PATH and the usual installation have it."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), USUAL_HOME]
    for candidate in ("nvcc", *(str(Path(home, "bin", "nvcc")) for home in homes if home)):
        if shutil.which(candidate):
            return candidate
    raise EngineError(
        "attention=cuda needs nvcc, the compiler of the CUDA toolkit, on PATH or in CUDA_HOME/bin: "
        "install it, or choose attention=triton or attention=torch"
    )


def build_for_gpu(head_dim: int, cache_dtype: torch.dtype, capability: tuple[int, int]) -> Path:
    """The library for a device of this compute capability, from the user's cache where it is there."""
    if capability < OLDEST_CAPABILITY:
        raise EngineError(
            "attention=cuda needs a GPU of compute capability {}.{} or newer, this one has {}.{}: "
            "choose attention=torch".format(*OLDEST_CAPABILITY, *capability)
        )
    flags = shape_flags(head_dim, cache_dtype)
    architecture = "-arch=sm_{}{}".format(*capability)
    command = [find_nvcc(), *NVCC_FLAGS, architecture, "-shared", "-Xcompiler", "-fPIC", *flags]
    return build([SOURCE], command, [], f"paged-decode-{head_dim}", HEADERS)
