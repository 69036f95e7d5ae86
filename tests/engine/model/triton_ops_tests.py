"""The small operations in Triton against those in torch. Run by test_triton_ops.py in a process of its own.

TRITON_INTERPRET=1 pytest tests/engine/model/triton_ops_tests.py
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.attention.triton.backend import INTERPRETED
from engine.model.ops import TorchOps
from engine.model.triton_ops import TritonOps

torch.set_num_threads(1)
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
OPS, REFERENCE = TritonOps(DEVICE), TorchOps()
# Relative: two units in the last place. (The interpreter cuts bf16 off where a GPU rounds.)
TOLERANCE = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE, dtype)


def check(found: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
    """`wanted` was computed in fp32 from the same numbers."""
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@every_dtype
@pytest.mark.parametrize("shape", [(5, 24), (1, 576), (3, 2048), (2, 3, 40)])
def test_rms_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight = normal(*shape, dtype=dtype) * 30, normal(shape[-1], dtype=dtype)
    check(OPS.rms_norm(x, weight, 0.1), REFERENCE.rms_norm(x.float(), weight.float(), 0.1), dtype)


def test_rms_norm_of_heads_inside_a_wider_row() -> None:
    heads, weight = normal(3, 5, 8)[:, 1:3], normal(8)
    assert not heads.is_contiguous()
    check(OPS.rms_norm(heads, weight, 1e-6), REFERENCE.rms_norm(heads, weight, 1e-6), torch.float32)


@every_dtype
def test_add_rms_norm(dtype: torch.dtype) -> None:
    """Of the sum as it is kept."""
    x, residual, weight = normal(4, 24, dtype=dtype), normal(24, 4, dtype=dtype).T.contiguous(), normal(24, dtype=dtype)
    total = x.float() + residual.float()
    normed, new = OPS.add_rms_norm(x, residual, weight, 1e-5)
    check(new, total, dtype)
    check(normed, REFERENCE.rms_norm(new.float(), weight.float(), 1e-5), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_sum_is_rounded_as_torch_rounds_it(dtype: torch.dtype) -> None:
    x, residual, weight = normal(4, 24, dtype=dtype), normal(24, 4, dtype=dtype).T.contiguous(), normal(24, dtype=dtype)
    total = x + residual
    assert torch.equal(OPS.add_rms_norm(x, residual, weight, 1e-5)[1], total)


@every_dtype
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(9, 3, 64), (3, 1, 24), (4, 4, 128)])
def test_rope(heads: int, kv_heads: int, dim: int, dtype: torch.dtype) -> None:
    """q and k lie in the rows of one projection; the values beside them stay as they are."""
    rows = normal(5, heads + 2 * kv_heads, dim, dtype=dtype)
    before = rows.clone()
    angles = torch.outer(torch.arange(20.0), 0.5 ** torch.arange(dim // 2)).to(DEVICE)
    positions = torch.tensor([7, 0, 19, 3, 3], device=DEVICE)
    cos, sin = angles.cos(), angles.sin()
    q, k, _ = before.float().split((heads, kv_heads, kv_heads), 1)
    wanted_q, wanted_k = REFERENCE.rope(q, k, cos, sin, positions)
    found_q, found_k = OPS.rope(rows[:, :heads], rows[:, heads : heads + kv_heads], cos, sin, positions)
    check(found_q, wanted_q, dtype)
    check(found_k, wanted_k, dtype)
    assert torch.equal(rows[:, -kv_heads:], before[:, -kv_heads:])


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")
@every_dtype
@pytest.mark.parametrize("intermediate", [10, 1024, 1536])
def test_silu_mul(intermediate: int, dtype: torch.dtype) -> None:
    gate_up = normal(3, 2 * intermediate, dtype=dtype) * 4
    gate_up[0, 0] = -100.0  # exp(100) is infinite in fp32
    check(OPS.silu_mul(gate_up), REFERENCE.silu_mul(gate_up.float()), dtype)
