"""The definition of attention, row by row in fp32: slow, and what every back end is measured by."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention.base import AttentionBatch
from engine.attention.fp8 import from_cache, to_cache


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """softmax(q k^T * scale) v of one sequence.

    `k`, `v` [context, kv_heads, dim] are all its positions, `q` [rows, heads, dim] the queries of the last `rows` of them.
    Row j stands at position context - rows + j and sees positions up to its own. The result is fp32 [rows, heads, dim].
    """
    rows, heads, _ = q.shape
    context, kv_heads, _ = k.shape
    q, k, v = q.float(), k.float(), v.float()
    out = torch.empty_like(q)
    for row in range(rows):
        visible = context - rows + row + 1
        for head in range(heads):
            kv_head = head // (heads // kv_heads)
            scores = k[:visible, kv_head] @ q[row, head] * scale
            out[row, head] = torch.softmax(scores, dim=0) @ v[:visible, kv_head]
    return out


class ReferenceAttention:
    """The definition over a paged cache, one row after the other. For tests and `engine check`."""

    name = "reference"

    def write(
        self, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, k_scale: Tensor, v_scale: Tensor
    ) -> None:
        block_size = k_cache.shape[1]
        for row, slot in enumerate(batch.slots.tolist()):
            if slot >= 0:
                place = slot // block_size, slot % block_size
                k_cache[place] = to_cache(k[row], k_cache.dtype, k_scale)
                v_cache[place] = to_cache(v[row], v_cache.dtype, v_scale)

    def attend(
        self, q: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, scale: float, k_scale: Tensor,
        v_scale: Tensor,
    ) -> Tensor:  # fmt: skip
        out = torch.zeros_like(q)
        starts, contexts = batch.query_start.tolist(), batch.context_lens.tolist()
        for i, context in enumerate(contexts):
            if not context:
                continue
            k = from_cache(positions(k_cache, batch.block_tables[i], context), k_scale)
            v = from_cache(positions(v_cache, batch.block_tables[i], context), v_scale)
            rows = slice(starts[i], starts[i + 1])
            out[rows] = attention(q[rows], k, v, scale).to(q.dtype)
        return out


def positions(cache: Tensor, table: Tensor, context: int) -> Tensor:
    """The first `context` positions of a sequence [context, kv_heads, dim], through its block table."""
    block_size = cache.shape[1]
    return torch.stack([cache[table[p // block_size], p % block_size] for p in range(context)])
