"""The forward pass: Llama, Qwen2 and Qwen3 over a paged cache.

    x = embedding[tokens]
    for each layer:
        q, k, v = qkv(norm(x));  Qwen3: q, k = norm(q), norm(k);  q, k turn by position
        x += output(attention(q, cache with k, v))
        x += down(silu(gate(norm(x))) * up(norm(x)))
    logits = head(norm(x))

Written so that a step is few calls: an addition to the residual stream x and the norm that follows are one operation.
No shape and no branch depends on a tensor's content, and nothing waits for the device: a step may be captured in a CUDA
graph.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.attention.base import AttentionBackend, AttentionBatch
from engine.model.config import ModelConfig
from engine.model.ops import Ops
from engine.model.rope import rope_tables
from engine.model.weights import LayerWeights, Weights


class Cache(Protocol):
    """Keys and values by layer, [blocks, block_size, kv_heads, dim], and fp32 scales [kv_heads] of an fp8 cache."""

    def k(self, layer: int) -> Tensor: ...

    def v(self, layer: int) -> Tensor: ...

    def k_scale(self, layer: int) -> Tensor: ...

    def v_scale(self, layer: int) -> Tensor: ...


class Transformer:
    """A model on its device. It holds no state of any sequence: that is the cache's."""

    def __init__(self, config: ModelConfig, weights: Weights, ops: Ops, max_len: int | None = None) -> None:
        """`max_len`: the longest context that will be asked for, in tokens; None: the positions of the training."""
        self.config = config
        self.weights = weights
        self.ops = ops
        self.max_len = max_len or config.max_position
        self.cos, self.sin = rope_tables(config, self.max_len, weights.device)
        self.scale = config.head_dim**-0.5

    @property
    def dtype(self) -> torch.dtype:
        return self.weights.dtype

    @property
    def device(self) -> torch.device:
        return self.weights.device

    @torch.inference_mode()
    def forward(
        self,
        token_ids: Tensor,
        batch: AttentionBatch,
        cache: Cache,
        attention: AttentionBackend,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Hidden states [tokens, hidden] after the final norm of token_ids int64 [tokens]; K and V go into the cache.

        With `rows`, int64 [n]: of these rows alone, [n, hidden]. The last layer then leaves out the others, once their
        keys and values are written.
        """
        layers, ops, eps = self.weights.layers, self.ops, self.config.rms_norm_eps
        residual = F.embedding(token_ids, self.weights.embedding)
        normed = ops.rms_norm(residual, layers[0].input_norm, eps)
        next_norms = [*(layer.input_norm for layer in layers[1:]), self.weights.final_norm]
        for index, (layer, next_norm) in enumerate(zip(layers, next_norms, strict=True)):
            mixed = self._attention(normed, index, layer, batch, cache, attention)
            if rows is not None and index == len(layers) - 1:
                mixed, residual = mixed[rows], residual[rows]
            normed, residual = ops.add_rms_norm(layer.output(mixed), residual, layer.post_norm, eps)
            normed, residual = ops.add_rms_norm(layer.down(ops.silu_mul(layer.gate_up(normed))), residual, next_norm, eps)
        return normed

    @torch.inference_mode()
    def logits(self, hidden_rows: Tensor) -> Tensor:
        """Logits fp32 [rows, vocab] of hidden states [rows, hidden] that `forward` returned."""
        return self.weights.head(hidden_rows).float()

    def _attention(
        self, x: Tensor, index: int, layer: LayerWeights, batch: AttentionBatch, cache: Cache, attention: AttentionBackend
    ) -> Tensor:
        """Values of attention before the output projection, [tokens, heads * dim]."""
        config, ops = self.config, self.ops
        heads, kv_heads = config.heads, config.kv_heads
        qkv = layer.qkv(x).view(-1, heads + 2 * kv_heads, config.head_dim)
        q, k, v = qkv.split((heads, kv_heads, kv_heads), 1)
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = ops.rms_norm(q, layer.q_norm, config.rms_norm_eps), ops.rms_norm(k, layer.k_norm, config.rms_norm_eps)
        q, k = ops.rope(q, k, self.cos, self.sin, batch.positions)
        k_cache, v_cache, k_scale, v_scale = cache.k(index), cache.v(index), cache.k_scale(index), cache.v_scale(index)
        attention.write(k, v, k_cache, v_cache, batch, k_scale, v_scale)
        attended = attention.attend(q, k_cache, v_cache, batch, self.scale, k_scale, v_scale)
        return attended.reshape(-1, heads * config.head_dim)
