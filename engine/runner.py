"""The model, its cache and an attention back end: from the arrays of a step to logits."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attention.base import AttentionBackend, AttentionBatch
from engine.kv_cache import KVCache
from engine.model.transformer import Transformer
from engine.step_input import NO_ROW, StepInput
from twin.core.limits import Limits


def cache_for(model: Transformer, limits: Limits, dtype: torch.dtype) -> KVCache:
    """A cache of these limits for the model, on its device. Raises `EngineError` where memory does not suffice."""
    config = model.config
    return KVCache(
        config.layers, limits.num_blocks, limits.block_size, config.kv_heads, config.head_dim, dtype, model.device,
        limits.num_host_blocks,
    )  # fmt: skip


class Graphs(Protocol):
    """Recorded launches of some steps (decode_graphs.py)."""

    def serves(self, step: StepInput) -> bool: ...

    def logits(self, step: StepInput, token_ids: Tensor) -> Tensor: ...


class ModelRunner:
    """Runs steps on one device. Whoever calls keeps the order: a step reads what those before it have written."""

    def __init__(self, model: Transformer, cache: KVCache, attention: AttentionBackend) -> None:
        self.model, self.cache, self.attention = model, cache, attention
        self.device = model.device
        self.graphs: Graphs | None = None  # of decode steps, where there are any

    @torch.inference_mode()
    def logits(self, step: StepInput, previous_tokens: Tensor | None = None) -> Tensor:
        """fp32 [len(step.logit_rows), vocab]; `previous_tokens` int64: what the step before yields, in its order."""
        token_ids = self.token_ids(step, previous_tokens)
        if self.graphs is not None and self.graphs.serves(step):
            return self.graphs.logits(step, token_ids)
        rows = self.to_device(step.logit_rows)
        hidden = self.model.forward(token_ids, self.attention_batch(step), self.cache, self.attention, rows)
        return self.model.logits(hidden)

    def token_ids(self, step: StepInput, previous_tokens: Tensor | None) -> Tensor:
        """int64 [rows], those in flight taken from the step before."""
        ids = self.to_device(step.token_ids)
        if not step.any_in_flight:
            return ids
        assert previous_tokens is not None
        places = self.to_device(step.in_flight)
        # a request that failed in the step before has token -1; what is computed for it here is dropped
        taken = previous_tokens[places.clamp(min=0)].clamp(min=0)
        return torch.where(places == NO_ROW, ids, taken)

    def attention_batch(self, step: StepInput) -> AttentionBatch:
        return AttentionBatch(
            self.to_device(step.query_start), self.to_device(step.context_lens), self.to_device(step.block_tables),
            self.to_device(step.slots), self.to_device(step.positions), step.num_decodes, step.query_lens, step.contexts,
        )  # fmt: skip

    def to_device(self, array: NDArray) -> Tensor:
        """Without waiting: by way of pinned memory where the device is not the host."""
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor if self.device.type == "cpu" else tensor.pin_memory().to(self.device, non_blocking=True)
