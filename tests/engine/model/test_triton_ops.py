"""The small operations in Triton: tests in processes of their own, and compiled ahead of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine.triton_process import run_on_the_gpu, run_under_the_interpreter

pytest.importorskip("triton")

from engine.attention.triton.ahead_of_time import compile_kernel  # noqa: E402
from engine.model import triton_ops  # noqa: E402
from tests.engine.attention.triton.test_ahead_of_time import check, require  # noqa: E402

OPS_TESTS = Path(__file__).with_name("triton_ops_tests.py")
MODEL_TESTS = Path(__file__).with_name("triton_model_tests.py")


def test_under_the_interpreter() -> None:
    run_under_the_interpreter(OPS_TESTS, MODEL_TESTS)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_on_the_gpu() -> None:
    run_on_the_gpu(OPS_TESTS)


ROW: dict[str, Any] = dict(DIM=4096, BLOCK=4096, num_warps=16, enable_fp_fusion=True)
VARIANTS: dict[str, dict[str, Any]] = {
    "rms_norm": ROW,
    "add_rms_norm": ROW,
    "rope": dict(
        HEADS=32, KV_HEADS=8, HALF=64, HEADS_PADDED=32, KV_HEADS_PADDED=8, HALF_PADDED=64, num_warps=4, enable_fp_fusion=True
    ),
    "silu_mul": dict(HALF=14336, BLOCK=1024, num_warps=4, enable_fp_fusion=True),
}
TYPES = {"cos": "*fp32", "sin": "*fp32", "positions": "*i64", "eps": "fp32"}
ROWS = ("x", "q", "k", "weight", "residual", "gate_up", "out")


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("capability", [80, 90])
def test_ahead_of_time(capability: int, name: str) -> None:
    """In the shapes of Llama 3.1 8B: nothing is spilled, and rows come 16 bytes at a time."""
    require(capability)
    kernel = getattr(triton_ops, name)
    names = {parameter.name for parameter in kernel.params}
    types = {given: kind for given, kind in (TYPES | dict.fromkeys(ROWS, "*bf16")).items() if given in names}
    compiled = compile_kernel(capability, kernel, types, VARIANTS[name])
    check(capability, compiled)
    assert "ld.global.v4.b32" in compiled.ptx and "st.global.v4.b32" in compiled.ptx
