"""What nvcc makes of the source, and what is said where it cannot."""

import os
import re
import subprocess
from itertools import product
from pathlib import Path

import pytest
import torch

from engine.attention.cuda import build as cuda_build
from engine.attention.cuda.backend import make_cuda_attention
from engine.attention.cuda.build import DTYPE_CODES, HEAD_DIMS, NVCC_FLAGS, SOURCE, build_for_gpu, find_nvcc, shape_flags
from engine.attention.cuda.library import Kernels
from engine.attention.fp8 import FP8
from engine.attention.reference import ReferenceAttention
from engine.errors import EngineError

NVCC_TIMEOUT_S = 300
ARCHITECTURES = (80, 90, 100)

# Two of the shapes with the most registers for each architecture. ALL_CUBINS=1 in the environment: every one of the 48.
SOME = [
    (80, 256, torch.bfloat16), (80, 128, FP8), (90, 128, torch.bfloat16), (90, 256, FP8), (100, 256, torch.float16),
    (100, 64, torch.float32),
]  # fmt: skip
CUBINS = list(product(ARCHITECTURES, HEAD_DIMS, DTYPE_CODES)) if os.environ.get("ALL_CUBINS") == "1" else SOME


def nvcc() -> str:
    try:
        return find_nvcc()
    except EngineError:
        pytest.skip("no nvcc on this machine")


@pytest.mark.parametrize("architecture, head_dim, cache_dtype", CUBINS, ids=str)
def test_kernels_keep_to_registers(tmp_path, architecture, head_dim, cache_dtype):
    """Nothing on a stack, nothing spilled, in any kernel."""
    command = [nvcc(), *NVCC_FLAGS, f"-arch=sm_{architecture}", *shape_flags(head_dim, cache_dtype)]
    command += ["-cubin", "-Xptxas", "-v", "-o", str(tmp_path / "kernels.cubin"), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=NVCC_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    kernels = re.findall(r"Compiling entry function '(\S+)' for 'sm_(\d+)'", done.stderr)
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)
    on_tensor_cores = 0 if cache_dtype == torch.float32 else 1 if head_dim > 128 else 2
    wanted = {"decode_cuda_cores": 2, "decode_tensor_cores": on_tensor_cores, "merge_kernel": 1, "write_kv_kernel": 1}
    assert {name: sum(name in kernel for kernel, _ in kernels) for name in wanted} == wanted
    assert {arch for _, arch in kernels} == {str(architecture)}
    assert frames == [("0", "0", "0")] * len(kernels)


def test_a_library_for_a_gpu_is_built_once_and_loads(tmp_path, monkeypatch):
    nvcc()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = build_for_gpu(64, torch.float32, (9, 0))
    made = library.stat().st_mtime_ns
    assert build_for_gpu(64, torch.float32, (9, 0)) == library
    assert library.stat().st_mtime_ns == made
    assert Kernels(library, 64, torch.float32)._library.error_text(0) == b"no error"


def without_cuda(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(cuda_build, "USUAL_HOME", str(folder))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)


def make_nvcc(folder: Path, script: str) -> Path:
    compiler = folder / "nvcc"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    return compiler


def test_no_nvcc(tmp_path, monkeypatch):
    without_cuda(monkeypatch, tmp_path)
    with pytest.raises(EngineError, match="attention=cuda needs nvcc.*CUDA_HOME.*attention=triton or attention=torch"):
        build_for_gpu(64, torch.float16, (9, 0))


def test_nvcc_is_found_in_cuda_home(tmp_path, monkeypatch):
    without_cuda(monkeypatch, tmp_path)
    (tmp_path / "bin").mkdir()
    compiler = make_nvcc(tmp_path / "bin", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_nvcc() == str(compiler)


def test_what_nvcc_cannot_build_is_told_in_one_line(tmp_path, monkeypatch):
    without_cuda(monkeypatch, tmp_path)
    make_nvcc(tmp_path, "echo 'nvcc fatal: Unsupported gpu architecture sm_999 error' >&2; exit 1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(EngineError, match="cannot build paged-decode-64.*Unsupported gpu architecture") as caught:
        build_for_gpu(64, torch.float16, (99, 9))
    assert "\n" not in str(caught.value)


def test_a_library_that_does_not_load(tmp_path):
    (tmp_path / "broken.so").write_bytes(b"\x7fELF and no more")
    with pytest.raises(EngineError, match="attention=cuda cannot load .*broken.so.*remove it"):
        Kernels(tmp_path / "broken.so", 64, torch.float16)


@pytest.mark.parametrize("head_dim", [8, 80, 112, 192, 512])
def test_head_dims_without_kernels(head_dim):
    with pytest.raises(EngineError, match=f"64, 96, 128, 256, not {head_dim}: choose attention=triton or attention=torch"):
        build_for_gpu(head_dim, torch.float16, (9, 0))


def test_dtypes_without_kernels():
    with pytest.raises(EngineError, match="caches of float32, float16, bfloat16, float8_e4m3fn, not of float8_e5m2"):
        build_for_gpu(64, torch.float8_e5m2, (9, 0))


def test_gpus_that_are_too_old():
    with pytest.raises(EngineError, match=r"compute capability 8.0 or newer, this one has 7.5: choose attention=torch"):
        build_for_gpu(64, torch.float16, (7, 5))


def test_no_gpu():
    with pytest.raises(EngineError, match="runs on GPUs, not on cpu: choose attention=torch"):
        make_cuda_attention(64, 16, torch.float16, torch.device("cpu"), ReferenceAttention())


def test_block_sizes_that_are_no_power_of_two():
    with pytest.raises(EngineError, match="a power of two, not 24: choose 16, attention=triton or attention=torch"):
        make_cuda_attention(64, 24, torch.float16, torch.device("cuda"), ReferenceAttention())


def test_the_package_holds_the_source():
    """What is hashed and what is compiled are the same files."""
    included = {name for file in (SOURCE, *cuda_build.HEADERS) for name in re.findall(r'#include "(.*)"', file.read_text())}
    assert included - {"emulation.h"} == {header.name for header in cuda_build.HEADERS}
