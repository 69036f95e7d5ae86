"""The small operations of a layer in C++ (engine/attention/cpu/layer_ops.cpp), each in one pass over memory."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention.cpu import library


class CpuOps:
    """`Ops` (engine/model/ops.py) for fp32, bf16 and fp16 on the CPU.

    All is computed in fp32 and rounded once. RoPE and the residual's sum happen in place.
    """

    def __init__(self) -> None:
        """Builds the library on first use; EngineError where that is not possible."""
        functions = library.library()
        self._rms_norm, self._add_rms_norm = functions.twin_rms_norm, functions.twin_add_rms_norm
        self._rope, self._silu_mul = functions.twin_rope, functions.twin_silu_mul

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        rows = x if 2 <= x.dim() <= 3 else x.reshape(-1, x.shape[-1])
        assert rows.stride(-1) == 1
        out = torch.empty(x.shape, dtype=x.dtype)
        outer, inner, stride, inner_stride = (*rows.shape[:2], *rows.stride()[:2]) if rows.dim() == 3 else (
            rows.shape[0], 1, rows.stride(0), 0,
        )  # fmt: skip
        self._rms_norm(
            rows.data_ptr(), weight.data_ptr(), out.data_ptr(), outer, inner, x.shape[-1], stride, inner_stride, eps,
            library.TYPES[x.dtype], torch.get_num_threads(),
        )  # fmt: skip
        return out

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        (rows, width), (stride, step), (residual_stride, residual_step) = x.shape, x.stride(), residual.stride()
        assert step == residual_step == 1
        out = torch.empty(x.shape, dtype=x.dtype)
        self._add_rms_norm(
            x.data_ptr(), residual.data_ptr(), weight.data_ptr(), out.data_ptr(), rows, width, stride,
            residual_stride, eps, library.TYPES[x.dtype], torch.get_num_threads(),
        )  # fmt: skip
        return out, residual

    def rope(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        tokens, heads, dim = q.shape
        (q_token, q_head, q_step), (k_token, k_head, k_step) = q.stride(), k.stride()
        assert q_step == k_step == 1 and cos.is_contiguous() and sin.is_contiguous()
        self._rope(
            q.data_ptr(), k.data_ptr(), cos.data_ptr(), sin.data_ptr(), positions.data_ptr(), tokens, heads, k.shape[1], dim,
            q_token, q_head, k_token, k_head, library.TYPES[q.dtype], torch.get_num_threads(),
        )  # fmt: skip
        return q, k

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        rows, both = gate_up.shape
        stride, step = gate_up.stride()
        assert step == 1
        out = torch.empty(rows, both // 2, dtype=gate_up.dtype)
        self._silu_mul(
            gate_up.data_ptr(), out.data_ptr(), rows, both // 2, stride, library.TYPES[gate_up.dtype],
            torch.get_num_threads(),
        )  # fmt: skip
        return out
