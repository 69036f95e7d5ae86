"""Paged attention on the CPU in C++ (paged_attention.cpp): the default where there is no GPU and g++ is there."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention.base import AttentionBatch
from engine.attention.cpu import library


class CpuAttention:
    """Queries fp32, bf16 or fp16; caches of these and fp8-e4m3; any head size and group."""

    name = "cpu"

    def __init__(self) -> None:
        """Builds the library on first use; EngineError where that is not possible (see `why_not`)."""
        functions = library.library()
        self._write, self._attend = functions.twin_write, functions.twin_attend

    @staticmethod
    def why_not() -> str | None:
        """Why this back end cannot be had on this machine, in one line; None where it can."""
        return library.why_not()

    def write(
        self, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, k_scale: Tensor, v_scale: Tensor
    ) -> None:
        _, _, kv_heads, dim = k_cache.shape
        (k_token, k_head, k_step), (v_token, v_head, v_step) = k.stride(), v.stride()
        assert k_cache.is_contiguous() and v_cache.is_contiguous() and k_step == v_step == 1
        self._write(
            k.data_ptr(), v.data_ptr(), k_cache.data_ptr(), v_cache.data_ptr(), batch.slots.data_ptr(),
            k_scale.data_ptr(), v_scale.data_ptr(), k.shape[0], k_token, k_head, v_token, v_head, kv_heads, dim,
            library.TYPES[k.dtype], library.TYPES[k_cache.dtype],
        )  # fmt: skip

    def attend(
        self, q: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, scale: float, k_scale: Tensor,
        v_scale: Tensor,
    ) -> Tensor:  # fmt: skip
        _, block_size, kv_heads, dim = k_cache.shape
        tables = batch.block_tables
        (token, head, step), (table, table_step) = q.stride(), tables.stride()
        assert k_cache.is_contiguous() and v_cache.is_contiguous() and step == table_step == 1
        out = torch.empty(q.shape, dtype=q.dtype)
        self._attend(
            q.data_ptr(), out.data_ptr(), k_cache.data_ptr(), v_cache.data_ptr(), batch.query_start.data_ptr(),
            batch.context_lens.data_ptr(), tables.data_ptr(), k_scale.data_ptr(), v_scale.data_ptr(), table,
            token, head, tables.shape[0], q.shape[1], kv_heads, dim, block_size, library.TYPES[q.dtype],
            library.TYPES[k_cache.dtype], scale, torch.get_num_threads(),
        )  # fmt: skip
        return out
