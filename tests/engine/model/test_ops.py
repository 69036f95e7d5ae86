"""The small operations against their formulas in double precision, and rotation against transformers."""

import pytest
import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from engine.model.ops import TorchOps

OPS = TorchOps()
DTYPES = [(torch.float32, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 1.6e-2)]  # relative: two units in the last place


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def norm_formula(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    x = x.double()
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double()


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_rms_norm(dtype, tolerance):
    x, weight = normal(5, 24, dtype=dtype) * 30, normal(24, dtype=dtype)
    found = OPS.rms_norm(x, weight, 0.1)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), norm_formula(x, weight, 0.1), rtol=tolerance, atol=1e-6)


def test_rms_norm_of_heads_inside_a_wider_row():
    """As queries and keys lie: [tokens, heads, dim] views into rows of queries, keys and values."""
    rows, weight = normal(3, 5, 8), normal(8)
    heads = rows[:, 1:3]
    assert not heads.is_contiguous()
    torch.testing.assert_close(
        OPS.rms_norm(heads, weight, 1e-6).double(), norm_formula(heads, weight, 1e-6), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_add_rms_norm(dtype, tolerance):
    x, residual, weight = normal(4, 16, dtype=dtype), normal(16, 4, dtype=dtype).T.contiguous(), normal(16, dtype=dtype)
    total = x + residual
    normed, new = OPS.add_rms_norm(x, residual, weight, 1e-5)
    assert torch.equal(new, total)
    torch.testing.assert_close(normed.double(), norm_formula(total, weight, 1e-5), rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_silu_mul(dtype, tolerance):
    gate_up = normal(3, 20, dtype=dtype) * 4
    gate, up = gate_up[:, :10].double(), gate_up[:, 10:].double()
    found = OPS.silu_mul(gate_up)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), gate / (1 + (-gate).exp()) * up, rtol=tolerance, atol=tolerance / 4)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_rope_turns_as_transformers_does(dtype, tolerance):
    rows = normal(5, 6, 8, dtype=dtype)
    q, k = rows[:, :3], rows[:, 3:5]
    angles = torch.outer(torch.arange(20.0), torch.tensor([1.0, 0.3, 0.1, 0.02]))
    positions = torch.tensor([7, 0, 19, 3, 3])
    cos, sin = (torch.cat((table, table), -1)[positions][None] for table in (angles.cos(), angles.sin()))
    wanted = apply_rotary_pos_emb(*(x.double().transpose(0, 1)[None] for x in (q, k)), cos.double(), sin.double())
    wanted_q, wanted_k = (x[0].transpose(0, 1) for x in wanted)
    found_q, found_k = OPS.rope(q, k, angles.cos(), angles.sin(), positions)
    assert found_q.dtype == found_k.dtype == dtype
    torch.testing.assert_close(found_q.double(), wanted_q, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(found_k.double(), wanted_k, rtol=tolerance, atol=tolerance)
