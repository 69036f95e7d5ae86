"""The same models without cache, blocks and chunks: the whole sequence at once, in fp64, one formula a line.

RMSNorm: Zhang and Sennrich (2019). RoPE: Su et al. (2021), in the planes of dimensions i and i + dim / 2. SwiGLU: Shazeer
(2020). Groups of query heads that share a KV head: Ainslie et al. (2023).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.config import ModelConfig
from engine.model.tensor_shapes import EMBEDDING, FINAL_NORM, HEAD, layer_prefix

Read = Callable[[str], Tensor | None]  # the parameter of a name of Hugging Face, fp64; None where there is none


def dense_logits(config: ModelConfig, read: Read, tokens: Tensor) -> Tensor:
    """fp64 [tokens, vocab] for token ids int64 [tokens]. RoPE is not scaled."""
    assert config.rope.kind == "default"
    x = _get(read, EMBEDDING)[tokens]
    for layer in range(config.layers):
        prefix = layer_prefix(layer)
        x = x + _attention(config, read, prefix + "self_attn.", _norm(config, read, prefix + "input_layernorm", x))
        x = x + _feed_forward(read, prefix + "mlp.", _norm(config, read, prefix + "post_attention_layernorm", x))
    x = _norm(config, read, FINAL_NORM.removesuffix(".weight"), x)
    return x @ _get(read, EMBEDDING if config.tied else HEAD).T


def _attention(config: ModelConfig, read: Read, prefix: str, x: Tensor) -> Tensor:
    rows, dim = len(x), config.head_dim
    q = _linear(read, prefix + "q_proj", x).view(rows, config.heads, dim)
    k = _linear(read, prefix + "k_proj", x).view(rows, config.kv_heads, dim)
    v = _linear(read, prefix + "v_proj", x).view(rows, config.kv_heads, dim)
    if config.qk_norm:
        q, k = _norm(config, read, prefix + "q_norm", q), _norm(config, read, prefix + "k_norm", k)
    q, k = _turned(q, config.rope.theta), _turned(k, config.rope.theta)
    k, v = (each.repeat_interleave(config.heads // config.kv_heads, dim=1) for each in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) / dim**0.5
    ahead = torch.ones(rows, rows, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(ahead, float("-inf")).softmax(-1)
    return _linear(read, prefix + "o_proj", torch.einsum("hij,jhd->ihd", weights, v).reshape(rows, -1))


def _turned(x: Tensor, theta: float) -> Tensor:
    """x [rows, heads, dim], row p turned by p * theta^(-2i / dim) in the plane of dimensions i and i + dim / 2."""
    rows, _, dim = x.shape
    frequencies = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = (torch.arange(rows, dtype=torch.float64)[:, None] * frequencies)[:, None]
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)


def _feed_forward(read: Read, prefix: str, x: Tensor) -> Tensor:
    gate, up = _linear(read, prefix + "gate_proj", x), _linear(read, prefix + "up_proj", x)
    return _linear(read, prefix + "down_proj", F.silu(gate) * up)


def _norm(config: ModelConfig, read: Read, name: str, x: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + config.rms_norm_eps).sqrt() * _get(read, f"{name}.weight")


def _linear(read: Read, name: str, x: Tensor) -> Tensor:
    bias = read(f"{name}.bias")
    product = x @ _get(read, f"{name}.weight").T
    return product if bias is None else product + bias


def _get(read: Read, name: str) -> Tensor:
    tensor = read(name)
    assert tensor is not None, name
    return tensor
