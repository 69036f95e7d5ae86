"""The tensors of a checkpoint: names as Hugging Face has them, with the shapes that a configuration implies."""

from __future__ import annotations

import math

from engine.model.config import ModelConfig

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"


def layer_prefix(layer: int) -> str:
    return f"model.layers.{layer}."


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every parameter, in the order in which a model uses them; a tied head is not among them."""
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocab, config.hidden)}
    for layer in range(config.layers):
        shapes |= {layer_prefix(layer) + name: shape for name, shape in _layer(config).items()}
    shapes[FINAL_NORM] = (config.hidden,)
    if not config.tied:
        shapes[HEAD] = (config.vocab, config.hidden)
    return shapes


def _layer(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    matrices = {  # name -> (outputs, inputs), whether there is a bias
        "self_attn.q_proj": ((queries, config.hidden), config.qkv_bias),
        "self_attn.k_proj": ((keys, config.hidden), config.qkv_bias),
        "self_attn.v_proj": ((keys, config.hidden), config.qkv_bias),
        "self_attn.o_proj": ((config.hidden, queries), config.output_bias),
        "mlp.gate_proj": ((config.intermediate, config.hidden), config.mlp_bias),
        "mlp.up_proj": ((config.intermediate, config.hidden), config.mlp_bias),
        "mlp.down_proj": ((config.hidden, config.intermediate), config.mlp_bias),
    }
    shapes: dict[str, tuple[int, ...]] = {"input_layernorm.weight": (config.hidden,)}
    for name, (shape, has_bias) in matrices.items():
        shapes[f"{name}.weight"] = shape
        if has_bias:
            shapes[f"{name}.bias"] = shape[:1]
    if config.qk_norm:
        shapes["self_attn.q_norm.weight"] = shapes["self_attn.k_norm.weight"] = (config.head_dim,)
    shapes["post_attention_layernorm.weight"] = (config.hidden,)
    return shapes


def parameter_count(config: ModelConfig) -> int:
    """Parameters as a checkpoint counts them."""
    return sum(math.prod(shape) for shape in expected_shapes(config).values())
