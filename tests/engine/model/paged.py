"""A paged cache and an attention of the plainest kind, to run the model without the engine's own."""

import torch
from torch import Tensor

from engine.attention.base import AttentionBatch

BLOCK_SIZE = 4


class PlainCache:
    """Blocks in fp32 or narrower; slots hold NaN until they are written, so that reading too far is seen."""

    def __init__(self, layers: int, blocks: int, kv_heads: int, head_dim: int, dtype: torch.dtype) -> None:
        shape = (2, layers, blocks, BLOCK_SIZE, kv_heads, head_dim)
        self._slots = torch.full(shape, float("nan"), dtype=dtype)
        self._scale = torch.ones(kv_heads)

    def k(self, layer: int) -> Tensor:
        return self._slots[0, layer]

    def v(self, layer: int) -> Tensor:
        return self._slots[1, layer]

    def k_scale(self, layer: int) -> Tensor:
        return self._scale

    def v_scale(self, layer: int) -> Tensor:
        return self._scale


class PlainAttention:
    """Softmax over the gathered keys, sequence by sequence, in fp32."""

    name = "plain"

    def write(self, k, v, k_cache, v_cache, batch, k_scale, v_scale):
        k_cache.flatten(0, 1)[batch.slots] = k
        v_cache.flatten(0, 1)[batch.slots] = v

    def attend(self, q, k_cache, v_cache, batch, scale, k_scale, v_scale):
        out = torch.empty_like(q)
        group = q.shape[1] // k_cache.shape[2]
        for index, context in enumerate(batch.contexts):
            start, end = batch.query_start[index], batch.query_start[index + 1]
            positions = torch.arange(context)
            slots = batch.block_tables[index, positions // BLOCK_SIZE].long() * BLOCK_SIZE + positions % BLOCK_SIZE
            keys, values = (
                cache.flatten(0, 1)[slots].float().repeat_interleave(group, 1) for cache in (k_cache, v_cache)
            )  # [context, heads, dim]
            scores = torch.einsum("qhd,khd->hqk", q[start:end].float(), keys) * scale
            ahead = positions[None] > batch.positions[start:end, None]
            weights = scores.masked_fill(ahead, float("-inf")).softmax(-1)
            out[start:end] = torch.einsum("hqk,khd->qhd", weights, values).to(q.dtype)
        return out


def batch_of(*rows: tuple[int, int, int]) -> AttentionBatch:
    """A step of sequences (first block, tokens before, tokens of this step), each in consecutive blocks."""
    most = max(-(-(before + now) // BLOCK_SIZE) for _, before, now in rows)
    tables = torch.full((len(rows), most), -1, dtype=torch.int32)
    for index, (first, before, now) in enumerate(rows):
        used = -(-(before + now) // BLOCK_SIZE)
        tables[index, :used] = torch.arange(first, first + used)
    positions = torch.cat([torch.arange(before, before + now) for _, before, now in rows])
    slots = torch.cat([first * BLOCK_SIZE + torch.arange(before, before + now) for first, before, now in rows])
    lens = [now for *_, now in rows]
    return AttentionBatch(
        query_start=torch.tensor([0, *torch.tensor(lens).cumsum(0).tolist()], dtype=torch.int32),
        context_lens=torch.tensor([before + now for _, before, now in rows], dtype=torch.int32),
        block_tables=tables,
        slots=slots,
        positions=positions,
        num_decodes=next((index for index, length in enumerate(lens) if length > 1), len(lens)),
        query_lens=lens,
        contexts=[before + now for _, before, now in rows],
    )
