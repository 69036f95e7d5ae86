"""attention=cuda: decodes by the CUDA kernels of this folder, prefill by another back end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.attention.base import AttentionBackend, AttentionBatch
from engine.attention.cuda.build import build_for_gpu
from engine.attention.cuda.library import Kernels, partial_size
from engine.attention.cuda.splits import choose_splits, most_spans
from engine.errors import EngineError


def make_cuda_attention(
    head_dim: int, block_size: int, cache_dtype: torch.dtype, device: torch.device, prefill: AttentionBackend
) -> CudaAttention:
    """The back end for a model and its cache; builds the kernels on first use. EngineError where there can be none."""
    if device.type != "cuda":
        raise EngineError(f"attention=cuda runs on GPUs, not on {device.type}: choose attention=torch")
    if block_size & (block_size - 1):
        raise EngineError(
            f"attention=cuda needs a block size that is a power of two, not {block_size}: "
            f"choose {1 << (block_size.bit_length() - 1)}, attention=triton or attention=torch"
        )
    library = build_for_gpu(head_dim, cache_dtype, torch.cuda.get_device_capability(device))
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    return CudaAttention(Kernels(library, head_dim, cache_dtype), multiprocessors, prefill)


@dataclass(slots=True)
class _Plan:
    """What is the same for all layers of a step."""

    batch: AttentionBatch
    splits: int
    prefills: AttentionBatch | None


class CudaAttention:
    """Serves one model on one stream at a time: the buffer of partial results is its own, and stays where it is."""

    name = "cuda"

    def __init__(self, kernels: Kernels, multiprocessors: int, prefill: AttentionBackend) -> None:
        self.kernels, self.multiprocessors, self.prefill = kernels, multiprocessors, prefill
        self._plan: _Plan | None = None
        self._partial: Tensor | None = None

    def write(
        self, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, k_scale: Tensor, v_scale: Tensor
    ) -> None:
        self.kernels.write(k, v, k_cache, v_cache, batch.slots, k_scale, v_scale)

    def attend(
        self, q: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, scale: float, k_scale: Tensor,
        v_scale: Tensor,
    ) -> Tensor:  # fmt: skip
        n = batch.num_decodes
        plan = self._plan_for(batch, k_cache.shape[2])
        if n == 0:
            return self.prefill.attend(q, k_cache, v_cache, batch, scale, k_scale, v_scale)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        self.kernels.decode(
            q[:n], k_cache, v_cache, batch.block_tables[:n], batch.context_lens[:n], plan.splits,
            self._partials(q, k_cache.shape[2]), scale, k_scale, v_scale, out[:n],
        )  # fmt: skip
        if plan.prefills is not None:
            out[n:] = self.prefill.attend(q[n:], k_cache, v_cache, plan.prefills, scale, k_scale, v_scale)
        return out

    def _plan_for(self, batch: AttentionBatch, kv_heads: int) -> _Plan:
        """Made at the first layer of a step; the others are given the same batch."""
        if self._plan is None or self._plan.batch is not batch:
            n = batch.num_decodes
            splits = choose_splits(n, kv_heads, max(batch.contexts[:n]), self.multiprocessors) if n else 1
            self._plan = _Plan(batch, splits, _without_decodes(batch) if 0 < n < batch.num_sequences else None)
        return self._plan

    def _partials(self, q: Tensor, kv_heads: int) -> Tensor:
        """Room for the most spans that `choose_splits` ever makes, so that captured CUDA graphs never see it move."""
        if self._partial is None:
            rows = most_spans(self.multiprocessors) * (q.shape[1] // kv_heads)
            self._partial = torch.empty(partial_size(rows, q.shape[2]), dtype=torch.float32, device=q.device)
        return self._partial


def _without_decodes(batch: AttentionBatch) -> AttentionBatch:
    """The sequences behind the decodes, as a batch of their own."""
    n = batch.num_decodes
    return AttentionBatch(
        query_start=batch.query_start[n:] - n,
        context_lens=batch.context_lens[n:],
        block_tables=batch.block_tables[n:],
        slots=batch.slots[n:],
        positions=batch.positions[n:],
        num_decodes=0,
        query_lens=batch.query_lens[n:],
        contexts=batch.contexts[n:],
    )
