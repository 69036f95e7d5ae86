"""Attention in plain PyTorch, for any device: the readable back end.

The slots that a sequence may read are worked out once a step (`_Plan`) and gathered for each layer. Decodes are gathered
together, padded to the longest; what stands behind a context is a copy of the sequence's own first position, and the mask
hides it. So nothing but a sequence's own positions is read. A NaN from elsewhere would survive both a mask (NaN - inf) and a
weight of zero (0 * NaN).

Query heads that share a KV head are rows of one product with it, so K and V are never repeated for a group:

    decode     queries [n, kv_heads, group, dim]       keys [n, kv_heads, longest context, dim]
    prefill    queries [kv_heads, group, rows, dim]    keys [kv_heads, 1 (expanded), context, dim]
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.attention.base import AttentionBatch
from engine.attention.fp8 import FP8, to_cache


class TorchAttention:
    """Gathers what a sequence may see and calls scaled_dot_product_attention."""

    name = "torch"

    def __init__(self) -> None:
        self._plan: _Plan | None = None

    def write(
        self, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, k_scale: Tensor, v_scale: Tensor
    ) -> None:
        for rows, cache, scale in ((k, k_cache, k_scale), (v, v_cache, v_scale)):
            slots, stored, place = batch.slots, _by_slot(to_cache(rows, cache.dtype, scale).contiguous()), _by_slot(cache)
            if _may_be_padded(batch):
                slots, stored = _instead_of_padding(slots, stored, place)
            place.index_copy_(0, slots, stored)

    def attend(
        self, q: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, scale: float, k_scale: Tensor,
        v_scale: Tensor,
    ) -> Tensor:  # fmt: skip
        tokens, heads, dim = q.shape
        kv_heads = k_cache.shape[2]
        plan = self._plan_for(batch, q, k_cache)
        grouped = q.view(tokens, kv_heads, heads // kv_heads, dim).to(plan.dtype)
        if k_cache.dtype == FP8:  # scores are linear in K, and the result in V: their scales go to the smaller factor
            grouped = grouped * k_scale[:, None, None]
        out = torch.empty_like(grouped)
        if plan.decode_context:
            n = batch.num_decodes
            k, v = (_gather(cache, plan.decode_slots, plan.dtype).transpose(1, 2) for cache in (k_cache, v_cache))
            out[:n] = F.scaled_dot_product_attention(grouped[:n], k, v, attn_mask=plan.decode_mask, scale=scale)
        for rows, slots, mask in plan.prefills:
            queries = grouped[rows].permute(1, 2, 0, 3)
            k, v = (_gather(cache, slots, plan.dtype).transpose(0, 1)[:, None] for cache in (k_cache, v_cache))
            k, v = (x.expand(-1, queries.shape[1], -1, -1) for x in (k, v))
            result = F.scaled_dot_product_attention(queries, k, v, attn_mask=mask, is_causal=mask is None, scale=scale)
            out[rows] = result.permute(2, 0, 1, 3)
        if k_cache.dtype == FP8:
            out *= v_scale[:, None, None]
        if plan.padding is not None:
            out.masked_fill_(plan.padding[:, None, None, None], 0)
        return out.view(tokens, heads, dim).to(q.dtype)

    def _plan_for(self, batch: AttentionBatch, q: Tensor, k_cache: Tensor) -> _Plan:
        """One for all layers of a step. A layer that comes a second time begins a new step, even if the batch is the same
        object: its tensors may have been filled anew, or a CUDA graph may be about to be captured."""
        plan = self._plan
        if plan is None or plan.batch is not batch or plan.first_layer == k_cache.data_ptr():
            plan = self._plan = _Plan(batch, q.dtype, k_cache)
        return plan


class _Plan:
    """What all layers of a step have in common: the slots to gather, and the masks.

    The numbers of rows and the longest context come from the host's integers, so nothing waits for the device.
    """

    def __init__(self, batch: AttentionBatch, q_dtype: torch.dtype, k_cache: Tensor) -> None:
        self.batch, self.first_layer = batch, k_cache.data_ptr()
        self.block_size = k_cache.shape[1]
        self.dtype = q_dtype if q_dtype == k_cache.dtype else torch.float32  # of the products
        self.padding: Tensor | None = None  # [tokens], where rows are of no sequence
        if _may_be_padded(batch):
            self.padding = batch.slots < 0
        self._plan_decodes(batch)
        starts = [0]
        for rows in batch.query_lens:
            starts.append(starts[-1] + rows)
        self.prefills = [
            (slice(starts[i], starts[i + 1]), self._slots(batch.block_tables[i], batch.contexts[i]), self._chunk_mask(i))
            for i in range(batch.num_decodes, batch.num_sequences)
        ]

    def _plan_decodes(self, batch: AttentionBatch) -> None:
        n = batch.num_decodes
        contexts = batch.contexts[:n]
        self.decode_context = max(contexts, default=0)
        self.decode_mask: Tensor | None = None  # [n, 1, 1, decode_context]
        if not self.decode_context:
            return
        slots = self._slots(batch.block_tables[:n], self.decode_context)
        if min(contexts) < self.decode_context or _is_captured(batch):
            behind = torch.arange(self.decode_context, device=slots.device) >= batch.context_lens[:n, None]
            # A row of padding has no first position: it reads slot 0, and its result is replaced.
            slots = torch.where(behind, slots[:, :1].clamp(min=0), slots)
            mask = torch.zeros(behind.shape, dtype=self.dtype, device=slots.device).masked_fill_(behind, -torch.inf)
            self.decode_mask = mask[:, None, None]
        self.decode_slots = slots

    def _slots(self, tables: Tensor, context: int) -> Tensor:
        """Slots [..., context] of the first positions of sequences with block tables [..., blocks]."""
        block_size = self.block_size
        first = tables[..., : -(-context // block_size)].long() * block_size
        slots = first[..., None] + torch.arange(block_size, device=tables.device)
        return slots.flatten(-2)[..., :context]

    def _chunk_mask(self, i: int) -> Tensor | None:
        """[rows, context] for a chunk in the middle of its context; a whole prompt needs none, it is plainly causal."""
        rows, context = self.batch.query_lens[i], self.batch.contexts[i]
        assert context and not _is_captured(self.batch), "CUDA graphs hold decodes alone"
        if rows == context:
            return None
        mask = torch.full((rows, context), -torch.inf, dtype=self.dtype, device=self.batch.slots.device)
        return mask.triu_(context - rows + 1)


def _by_slot(cache: Tensor) -> Tensor:
    """[slots, kv_heads * dim], a view; fp8 as bytes, which can be copied by index everywhere."""
    flat = cache.view(-1, cache.shape[-2] * cache.shape[-1])
    return flat.view(torch.uint8) if cache.dtype == FP8 else flat


def _gather(cache: Tensor, slots: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows [*slots, kv_heads, dim] of a cache."""
    rows = _by_slot(cache).index_select(0, slots.flatten())
    return rows.view(cache.dtype).view(*slots.shape, *cache.shape[-2:]).to(dtype)


def _instead_of_padding(slots: Tensor, stored: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of padding do again what the first row of a sequence does: an index of -1 would be the pool's last slot.

    If all are padding, slot 0 is written with what it holds. This way no shape depends on the device's numbers.
    """
    valid = slots >= 0
    first = valid.int().argmax()[None]
    slot = slots.index_select(0, first).clamp(min=0)
    row = torch.where(valid.any(), stored.index_select(0, first), place.index_select(0, slot))
    return torch.where(valid, slots, slot), torch.where(valid[:, None], stored, row)


def _may_be_padded(batch: AttentionBatch) -> bool:
    """While a CUDA graph is captured the host's contexts are upper bounds: any row may turn out to be padding."""
    return 0 in batch.contexts or _is_captured(batch)


def _is_captured(batch: AttentionBatch) -> bool:
    return batch.slots.is_cuda and torch.cuda.is_current_stream_capturing()
