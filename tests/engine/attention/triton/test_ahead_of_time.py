"""The kernels as machine code for GPUs that need not be here: tensor cores, wide loads, nothing spilled."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import pytest
import torch

pytest.importorskip("triton")

from engine.attention.fp8 import FP8  # noqa: E402
from engine.attention.triton.ahead_of_time import (  # noqa: E402
    TOOL_TIMEOUT_S,
    TOOLS,
    Compiled,
    compile_attention,
    compile_merge,
    compile_write,
)
from engine.attention.triton.backend import INTERPRETED  # noqa: E402
from engine.attention.triton.tiles import Layer  # noqa: E402

BF16, FP16 = torch.bfloat16, torch.float16
MOST_SHARED_BYTES = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}  # of a block, CUDA C++ Programming Guide
TENSOR_CORES = {80: r"\bmma\.sync", 90: r"\bwgmma\.mma_async", 100: r"\btcgen05\.mma"}
GPUS = [80, 90, 100]


def layer(dtype: torch.dtype = BF16, cache_dtype: torch.dtype = BF16, head_dim: int = 128) -> Layer:
    """Heads as in Llama 3.1 8B."""
    return Layer(8, 4, head_dim, 16, dtype, cache_dtype)


@cache
def why_not(capability: int) -> str | None:
    """Why the kernels cannot be compiled for such a GPU here."""
    if INTERPRETED:
        return "TRITON_INTERPRET is set: there is nothing to compile"
    for tool in ("ptxas-blackwell" if capability >= 100 else "ptxas", "cuobjdump"):
        try:
            subprocess.run([TOOLS / tool, "--version"], capture_output=True, check=True, timeout=TOOL_TIMEOUT_S)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"this installation of Triton has no {tool} that runs: {error}"
    return None


def require(capability: int) -> None:
    if reason := why_not(capability):
        pytest.skip(reason)


def check(capability: int, kernel: Compiled) -> None:
    assert kernel.cubin.startswith(b"\x7fELF") and f".target sm_{capability}" in kernel.ptx
    registers, local_bytes = kernel.resources()
    assert 0 < registers <= 255 and local_bytes == 0
    assert kernel.shared_bytes <= MOST_SHARED_BYTES[capability]


@pytest.mark.parametrize("cache_dtype", [BF16, FP8], ids=["bf16", "fp8"])
@pytest.mark.parametrize("capability", GPUS)
def test_decode(capability: int, cache_dtype: torch.dtype) -> None:
    """Sixteen rows are too few for wgmma and tcgen05: mma.sync everywhere. K and V come 16 bytes at a time (fp8: or 8)."""
    require(capability)
    kernel = compile_attention(capability, layer(cache_dtype=cache_dtype), decode=True, split=True)
    check(capability, kernel)
    assert re.search(r"\bmma\.sync", kernel.ptx)
    widths = {
        int(width, 16) for width in re.findall(r"cp\.async\.c[ag]\.shared\.global \[.*?\], \[.*?\], (0x\w+)", kernel.ptx)
    }
    assert widths == ({16, 4} if cache_dtype == BF16 else {16, 8, 4})  # 4: entries of the table


@pytest.mark.parametrize("cache_dtype", [BF16, FP8], ids=["bf16", "fp8"])
@pytest.mark.parametrize("capability", GPUS)
def test_prefill(capability: int, cache_dtype: torch.dtype) -> None:
    require(capability)
    kernel = compile_attention(capability, layer(cache_dtype=cache_dtype), decode=False, split=False)
    check(capability, kernel)
    assert re.search(TENSOR_CORES[capability], kernel.ptx)


@pytest.mark.parametrize("decode", [True, False], ids=["decode", "prefill"])
def test_fp16(decode: bool) -> None:
    require(90)
    kernel = compile_attention(90, layer(FP16, FP16), decode, split=False)
    check(90, kernel)
    assert "f32.f16.f16" in kernel.ptx


@pytest.mark.parametrize("head_dim", [64, 256])
def test_head_sizes(head_dim: int) -> None:
    require(80)
    for decode in (True, False):
        check(80, compile_attention(80, layer(head_dim=head_dim), decode, split=not decode))


@pytest.mark.parametrize("capability", GPUS)
def test_write_and_merge(capability: int) -> None:
    require(capability)
    check(capability, compile_write(capability, layer(cache_dtype=FP8)))
    check(capability, compile_merge(capability, layer()))
