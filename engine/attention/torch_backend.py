"""Attention in plain PyTorch, for any device: the readable back end.

The slots that a sequence may read are worked out once a step (`_Plan`) and gathered for each layer. Decodes are gathered
many at a time, padded to the longest; what stands behind a context is a copy of the sequence's own first position, and the
mask hides it. So nothing but a sequence's own positions is read. A NaN from elsewhere would survive both a mask (NaN - inf)
and a weight of zero (0 * NaN).

Query heads that share a KV head are rows of one product with it, so K and V are never repeated for a group:

    decodes      queries [n, kv_heads, group, dim]       keys [n, kv_heads, longest context, dim]
    a prefill    queries [kv_heads, group, rows, dim]    keys [kv_heads, group (one, expanded), context, dim]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.attention.base import AttentionBatch
from engine.attention.fp8 import FP8, to_cache

# On a CPU, K (or V) of so many decodes are gathered at a time that they are still in the cache when they are read; and the
# fewer there are, the less padding. 9 heads, 3 KV heads of 64, fp32, one thread of an EPYC with 1 MiB of L2 a core: against
# all at once attention takes 12 % less time at batch 16 x context 256 and 36 % less at 16 x 512; about the same in bf16 or
# when there is less to gather.
CPU_GATHER_BYTES = 1_600_000


class TorchAttention:
    """Gathers what a sequence may see and calls scaled_dot_product_attention."""

    name = "torch"

    def __init__(self) -> None:
        self._plan: _Plan | None = None
        self._buffers: dict[str, Tensor] = {}

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
        plan = self._plan_for(batch, q, k_cache)
        grouped = q.reshape(tokens, k_cache.shape[2], -1, dim).to(plan.dtype)
        if k_cache.dtype == FP8:  # scores are linear in K, and the result in V: their scales go to the smaller factor
            grouped = grouped * k_scale[:, None, None]
        results = [piece.attend(grouped, k_cache, v_cache, scale) for piece in plan.pieces]
        out = results[0] if len(results) == 1 else torch.cat(results)
        if k_cache.dtype == FP8:
            out = out * v_scale[:, None, None]
        if plan.padding is not None:
            out = out.masked_fill(plan.padding, 0)
        return out.reshape(tokens, heads, dim).to(q.dtype)

    def _plan_for(self, batch: AttentionBatch, q: Tensor, k_cache: Tensor) -> _Plan:
        """One for all layers of a step. A layer that comes a second time begins a new step, even if the batch is the same
        object: its tensors may have been filled anew, or a CUDA graph may be about to be captured."""
        plan = self._plan
        if plan is None or plan.batch is not batch or plan.first_layer == k_cache.data_ptr():
            plan = self._plan = _Plan(batch, q, k_cache, self._buffers)
        return plan


@dataclass(slots=True)
class _Piece:
    """Decodes that are gathered together, or one prefill."""

    rows: slice  # of the step
    slots: Tensor  # int64 [n * context], what to gather
    is_prefill: bool
    mask: Tensor | None  # is added to the scores; a prefill without one is plainly causal
    k_rows: Tensor  # [n * context, kv_heads * dim], buffers to gather into
    v_rows: Tensor
    k: Tensor  # the same memory as the product wants it (see above)
    v: Tensor

    def attend(self, grouped: Tensor, k_cache: Tensor, v_cache: Tensor, scale: float) -> Tensor:
        """The result [rows, kv_heads, group, dim] for queries [tokens, kv_heads, group, dim]."""
        torch.index_select(_by_slot(k_cache), 0, self.slots, out=self.k_rows)
        torch.index_select(_by_slot(v_cache), 0, self.slots, out=self.v_rows)
        queries, k, v = grouped[self.rows], self.k.to(grouped.dtype), self.v.to(grouped.dtype)
        if not self.is_prefill:
            return F.scaled_dot_product_attention(queries, k, v, attn_mask=self.mask, scale=scale)
        queries = queries.permute(1, 2, 0, 3)
        k, v = (x.expand(-1, queries.shape[1], -1, -1) for x in (k, v))
        causal = self.mask is None
        result = F.scaled_dot_product_attention(queries, k, v, attn_mask=self.mask, is_causal=causal, scale=scale)
        return result.permute(2, 0, 1, 3)


class _Plan:
    """What all layers of a step have in common: the slots to gather, and the masks.

    The numbers of rows and the contexts come from the host's integers, so nothing waits for the device.
    """

    def __init__(self, batch: AttentionBatch, q: Tensor, k_cache: Tensor, buffers: dict[str, Tensor]) -> None:
        self.batch, self.first_layer, self.cache, self.buffers = batch, k_cache.data_ptr(), k_cache, buffers
        self.dtype = q.dtype if q.dtype == k_cache.dtype else torch.float32  # of the products
        padded = _may_be_padded(batch)
        self.padding = (batch.slots < 0)[:, None, None, None] if padded else None  # where rows are of no sequence
        self.pieces = [*self._decodes(), *self._prefills()]

    def _decodes(self) -> Iterator[_Piece]:
        """Neighbours together, as long as what is gathered stays small."""
        first, longest = 0, 1
        contexts = self.batch.contexts[: self.batch.num_decodes]
        most = self._most_positions()
        for i, context in enumerate(contexts):
            if i > first and max(longest, context) * (i + 1 - first) > most:
                yield self._decode_piece(first, i, longest)
                first, longest = i, 1
            longest = max(longest, context)
        if contexts:
            yield self._decode_piece(first, len(contexts), longest)

    def _most_positions(self) -> int:
        row_bytes = self.cache[0, 0].numel() * self.cache.element_size()
        return CPU_GATHER_BYTES // row_bytes if self.cache.device.type == "cpu" else 1 << 60

    def _decode_piece(self, first: int, end: int, longest: int) -> _Piece:
        batch = self.batch
        slots = self._slots(batch.block_tables[first:end], longest)
        mask = None
        if min(batch.contexts[first:end]) < longest or _is_captured(batch):
            behind = torch.arange(longest, device=slots.device) >= batch.context_lens[first:end, None]
            # A row of padding has no first position: it reads slot 0, and its result is replaced.
            slots = torch.where(behind, slots[:, :1].clamp(min=0), slots)
            mask = torch.zeros(behind.shape, dtype=self.dtype, device=slots.device).masked_fill_(behind, -torch.inf)
            mask = mask[:, None, None]
        return self._piece(slice(first, end), slots, mask, is_prefill=False)

    def _prefills(self) -> Iterator[_Piece]:
        batch = self.batch
        start = batch.num_decodes
        for i in range(batch.num_decodes, batch.num_sequences):
            rows, context = batch.query_lens[i], batch.contexts[i]
            assert context and not _is_captured(batch), "CUDA graphs hold decodes alone"
            mask = None
            if rows < context:  # a chunk that others precede
                mask = torch.full((rows, context), -torch.inf, dtype=self.dtype, device=self.cache.device)
                mask = mask.triu_(context - rows + 1)
            yield self._piece(slice(start, start + rows), self._slots(batch.block_tables[i], context), mask, is_prefill=True)
            start += rows

    def _slots(self, tables: Tensor, context: int) -> Tensor:
        """Slots [..., context] of the first positions of sequences with block tables [..., blocks]."""
        block_size = self.cache.shape[1]
        first = tables[..., : -(-context // block_size)].long() * block_size
        slots = first[..., None] + torch.arange(block_size, device=tables.device)
        return slots.flatten(-2)[..., :context]

    def _piece(self, rows: slice, slots: Tensor, mask: Tensor | None, *, is_prefill: bool) -> _Piece:
        gathered = [self._buffer(name, slots.numel()) for name in ("k", "v")]
        views = [x.view(self.cache.dtype).view(*slots.shape, *self.cache.shape[2:]).transpose(-3, -2) for x in gathered]
        if is_prefill:
            views = [view[:, None] for view in views]
        return _Piece(rows, slots.flatten(), is_prefill, mask, *gathered, *views)

    def _buffer(self, name: str, rows: int) -> Tensor:
        """[rows, kv_heads * dim] of memory that is kept: all layers, steps and pieces use it one after the other.

        New memory for every layer would have its pages mapped anew, which on a CPU can cost more than the copy itself.
        """
        source = _by_slot(self.cache)
        width = source.shape[1]
        buffer = self.buffers.get(name)
        if buffer is None or buffer.dtype != source.dtype or buffer.numel() < rows * width:
            with torch.inference_mode(False):  # can be written in either mode
                buffer = self.buffers[name] = torch.empty(rows * width, dtype=source.dtype, device=source.device)
        return buffer[: rows * width].view(rows, width)


def _by_slot(cache: Tensor) -> Tensor:
    """[slots, kv_heads * dim], a view; fp8 as bytes, which can be copied by index everywhere."""
    flat = cache.view(-1, cache.shape[-2] * cache.shape[-1])
    return flat.view(torch.uint8) if cache.dtype == FP8 else flat


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
