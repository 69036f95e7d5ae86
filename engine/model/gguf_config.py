"""The configuration that a GGUF file's metadata describes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from engine.errors import EngineError
from engine.model.config import ARCHITECTURES, ModelConfig
from engine.model.rope_config import RopeConfig

TOKENS_THAT_END = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id")
DTYPES = {"F16": "fp16", "BF16": "bf16"}  # of the embedding; what is quantized becomes fp32 numbers
SCALINGS = ("none", "linear", "yarn")


def from_gguf(
    metadata: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    embedding_dtype: str,
    frequency_factors: tuple[float, ...] | None,
    where: str,
) -> ModelConfig:
    """The configuration of `metadata` (key -> value) and of the tensors that are there (GGUF's name -> shape).

    `frequency_factors` [head_dim / 2] is the tensor `rope_freqs.weight`: divisors of the rotary frequencies.
    """
    architecture = metadata.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise EngineError(f"{where}: general.architecture is {architecture!r}; {', '.join(ARCHITECTURES)} are understood")

    def value(key: str, default: Any = None) -> Any:
        found = metadata.get(f"{architecture}.{key}", default)
        if found is None:
            raise EngineError(f"{where}: {architecture}.{key} is missing")
        return found

    def whole(key: str, default: int | None = None) -> int:
        found = value(key, default)
        if not isinstance(found, int) or found < 1:
            raise EngineError(f"{where}: {architecture}.{key} must be a whole number above 0, not {found!r}")
        return found

    def number(key: str, default: float | None = None) -> float:
        found = value(key, default)
        if not isinstance(found, (int, float)) or not 0 < found < math.inf:
            raise EngineError(f"{where}: {architecture}.{key} must be a number above 0, not {found!r}")
        return float(found)

    for key in ("expert_count", "attention.sliding_window"):
        if value(key, 0):
            raise EngineError(f"{where}: {architecture}.{key} is {value(key)}; the engine does not run such models")
    if "token_embd.weight" not in shapes:
        raise EngineError(f"{where}: tensors are missing: token_embd.weight")
    heads = whole("attention.head_count")
    head_dim = whole("attention.key_length", whole("embedding_length") // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if value(key, head_dim) != head_dim:
            raise EngineError(f"{where}: {architecture}.{key} is {value(key)}, not the head's {head_dim}, which is not run")
    if frequency_factors is not None:
        if len(frequency_factors) != head_dim // 2 or not all(0 < factor < math.inf for factor in frequency_factors):
            raise EngineError(f"{where}: rope_freqs.weight must be {head_dim // 2} numbers above 0 (half of head_dim)")
    max_position = whole("context_length")
    return ModelConfig(
        name=metadata.get("general.name", where),
        architecture=architecture,
        layers=whole("block_count"),
        hidden=whole("embedding_length"),
        heads=heads,
        kv_heads=whole("attention.head_count_kv", heads),
        head_dim=head_dim,
        intermediate=whole("feed_forward_length"),
        vocab=shapes["token_embd.weight"][0],
        tied="output.weight" not in shapes,
        max_position=max_position,
        rope=_rope(value, number, max_position, frequency_factors, where),
        rms_norm_eps=number("attention.layer_norm_rms_epsilon"),
        qkv_bias="blk.0.attn_q.bias" in shapes,
        output_bias="blk.0.attn_output.bias" in shapes,
        mlp_bias="blk.0.ffn_gate.bias" in shapes,
        qk_norm=architecture == "qwen3",
        dtype=DTYPES.get(embedding_dtype, "fp32"),
        eos_token_ids=tuple(dict.fromkeys(int(metadata[key]) for key in TOKENS_THAT_END if key in metadata)),
        bos_token_id=metadata.get("tokenizer.ggml.bos_token_id"),
    )


def _rope(
    value: Callable[..., Any],
    number: Callable[..., float],
    max_position: int,
    frequency_factors: tuple[float, ...] | None,
    where: str,
) -> RopeConfig:
    theta = number("rope.freq_base", 10000.0)
    kind = value("rope.scaling.type", "none")
    if kind not in SCALINGS:
        raise EngineError(f"{where}: rope.scaling.type is {kind!r}; {', '.join(SCALINGS)} are understood")
    if frequency_factors is not None:
        if kind != "none":
            raise EngineError(f"{where}: both rope_freqs.weight and rope.scaling.type {kind}, which is not understood")
        # One list of divisors at any length, as Llama 3.1 and later models have it
        return RopeConfig(
            theta, "longrope", attention_factor=1.0, original_max_position=max_position,
            short_factor=frequency_factors, long_factor=frequency_factors,
        )  # fmt: skip
    if kind == "none":
        return RopeConfig(theta)
    factor = number("rope.scaling.factor")
    if kind == "linear":
        return RopeConfig(theta, "linear", factor)
    return RopeConfig(
        theta, "yarn", factor, original_max_position=int(number("rope.scaling.original_context_length", max_position)),
        beta_fast=number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=number("rope.scaling.yarn_beta_slow", 1.0),
    )  # fmt: skip
