# Triton reads annotations of its kernels as its own: parameters are tensors, pointers or numbers of the device.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
"""The small operations of a layer in Triton, each in one pass over memory and one launch. Not measured on a GPU.

All is computed in fp32 and rounded once, but the residual's sum, which is rounded before its norm is taken, as it is kept.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention.triton.backend import find_machine
from engine.attention.triton.tiles import power_of_two

# Behind `backend`, which tells the user where Triton is missing.
import triton  # isort: skip
import triton.language as tl  # isort: skip

SILU_BLOCK = 1024


class TritonOps:
    """`Ops` (engine/model/ops.py) where `TritonAttention` runs. RoPE and the residual's sum happen in place."""

    def __init__(self, device: torch.device) -> None:
        """EngineError where the kernels cannot run on `device`."""
        find_machine(device)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        dim = x.shape[-1]
        rows = x if x.dim() == 3 else x.reshape(-1, 1, dim)
        assert rows.stride(2) == 1
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        grid = (rows.shape[0] * rows.shape[1],)
        rms_norm[grid](rows, weight, out, rows.stride(0), rows.stride(1), rows.shape[1], eps, dim, **_one_row(dim))
        return out

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        tokens, dim = x.shape
        assert x.stride(1) == residual.stride(1) == 1
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        add_rms_norm[(tokens,)](x, residual, weight, out, x.stride(0), residual.stride(0), eps, dim, **_one_row(dim))
        return out, residual

    def rope(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        tokens, heads, dim = q.shape
        kv_heads = k.shape[1]
        assert q.stride(2) == k.stride(2) == 1 and cos.is_contiguous() and sin.is_contiguous()
        rope[(tokens,)](
            q, k, cos, sin, positions, q.stride(0), q.stride(1), k.stride(0), k.stride(1), heads, kv_heads, dim // 2,
            power_of_two(heads), power_of_two(kv_heads), power_of_two(dim // 2), num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip
        return q, k

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        tokens, both = gate_up.shape
        assert gate_up.stride(1) == 1
        out = torch.empty((tokens, both // 2), dtype=gate_up.dtype, device=gate_up.device)
        grid = (tokens, -(-both // 2 // SILU_BLOCK))
        silu_mul[grid](gate_up, out, gate_up.stride(0), both // 2, SILU_BLOCK, num_warps=4, enable_fp_fusion=True)
        return out


def _one_row(dim: int) -> dict[str, int | bool]:
    """A program holds a whole row: 8 or more elements a thread, as far as 16 warps go."""
    block = power_of_two(dim)
    return {"BLOCK": block, "num_warps": min(16, max(1, block // 256)), "enable_fp_fusion": True}


@triton.jit
def rms_norm(x, weight, out, x_outer, x_inner, inner, eps, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """One program a row of x [outer, inner, DIM] with strides x_outer, x_inner; out is contiguous."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < DIM
    values = tl.load(x + row // inner * x_outer + row % inner * x_inner + column, mask=inside, other=0.0).to(tl.float32)
    normed = normed_row(values, weight, column, inside, eps, DIM)
    tl.store(out + row * DIM + column, normed.to(out.dtype.element_ty), mask=inside)


@triton.jit
def add_rms_norm(x, residual, weight, out, x_row, residual_row, eps, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """One program a row: residual += x, and the norm of that."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < DIM
    kept = residual + row * residual_row + column
    total = tl.load(x + row * x_row + column, mask=inside, other=0.0).to(tl.float32)
    total += tl.load(kept, mask=inside, other=0.0).to(tl.float32)
    rounded = total.to(residual.dtype.element_ty)
    tl.store(kept, rounded, mask=inside)
    normed = normed_row(rounded.to(tl.float32), weight, column, inside, eps, DIM)
    tl.store(out + row * DIM + column, normed.to(out.dtype.element_ty), mask=inside)


@triton.jit
def normed_row(values, weight, column, inside, eps, DIM: tl.constexpr):
    """values / sqrt(mean(values^2) + eps) * weight, in fp32."""
    root = tl.sqrt(tl.sum(values * values, 0) / DIM + eps)
    return values / root * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def rope(
    q, k, cos, sin, positions, q_row, q_head, k_row, k_head,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr,
    HEADS_PADDED: tl.constexpr, KV_HEADS_PADDED: tl.constexpr, HALF_PADDED: tl.constexpr,
):  # fmt: skip
    """One program a token: all its heads of q and k, in place. HALF: of the head's dimensions."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, HALF_PADDED)
    angle = tl.load(positions + token) * HALF + column
    cosine = tl.load(cos + angle, mask=column < HALF, other=0.0)[None, :]
    sine = tl.load(sin + angle, mask=column < HALF, other=0.0)[None, :]
    turn(q + token * q_row, q_head, cosine, sine, HEADS, HALF, HEADS_PADDED, HALF_PADDED)
    turn(k + token * k_row, k_head, cosine, sine, KV_HEADS, HALF, KV_HEADS_PADDED, HALF_PADDED)


@triton.jit
def turn(
    x, x_head, cosine, sine,
    HEADS: tl.constexpr, HALF: tl.constexpr, HEADS_PADDED: tl.constexpr, HALF_PADDED: tl.constexpr,
):  # fmt: skip
    """The heads of one token: dimension i turns with i + HALF."""
    head, column = tl.arange(0, HEADS_PADDED), tl.arange(0, HALF_PADDED)
    inside = (head < HEADS)[:, None] & (column < HALF)[None, :]
    places = x + head[:, None] * x_head + column[None, :]
    first = tl.load(places, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(places + HALF, mask=inside, other=0.0).to(tl.float32)
    tl.store(places, (first * cosine - second * sine).to(x.dtype.element_ty), mask=inside)
    tl.store(places + HALF, (second * cosine + first * sine).to(x.dtype.element_ty), mask=inside)


@triton.jit
def silu_mul(gate_up, out, gate_up_row, HALF: tl.constexpr, BLOCK: tl.constexpr):
    """One program BLOCK columns of a row: silu(gate) * up, gate first, HALF columns each."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < HALF
    gate = tl.load(gate_up + row * gate_up_row + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * gate_up_row + HALF + column, mask=inside, other=0.0).to(tl.float32)
    product = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out + row * HALF + column, product.to(out.dtype.element_ty), mask=inside)
