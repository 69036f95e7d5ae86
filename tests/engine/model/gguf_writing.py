"""GGUF files of tiny models, written with the format's own library from the weights of transformers' models; wrong ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from torch import Tensor

from engine.errors import EngineError
from engine.model.load import load_model

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip


def refusal_of(file: Path) -> str:
    """What loading a wrong file says, in one line that names the file or the model."""
    with pytest.raises(EngineError) as refusal:
        load_model(file)
    text = str(refusal.value)
    assert text.startswith(f"{file}: ") or "model " in text
    assert "\n" not in text
    return text


def write_gguf(
    file: Path,
    model: Any,
    dtype: type = np.float32,
    tensors: dict[str, np.ndarray] | None = None,
    quantized: GGMLQuantizationType | None = None,
    **metadata: Any,
) -> None:
    """`model` (of transformers) as converters write it: queries and keys of llama in pairs, other architectures as they are.

    `metadata` adds or replaces (None: leaves out) keys after the architecture, with `__` for a dot; `tensors` adds tensors;
    `quantized` is the type of matrices, `dtype` that of vectors, and of matrices otherwise.
    """
    config = model.config
    kind = config.model_type
    writer = GGUFWriter(file, kind)
    values = {
        "block_count": config.num_hidden_layers, "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size, "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads, "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": config.head_dim, "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps, "rope.freq_base": config.rope_parameters["rope_theta"],
    }  # fmt: skip
    values |= {key.replace("__", "."): value for key, value in metadata.items()}
    for key, value in values.items():
        if value is not None:
            add: Any = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
            add(f"{kind}.{key}", value)
    writer.add_eos_token_id(2)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values_ = _as_converted(name, weight, config)
        if quantized is not None and values_.ndim == 2:
            writer.add_tensor(_gguf_name(name), quantize(values_, quantized), raw_dtype=quantized)
        else:
            writer.add_tensor(_gguf_name(name), values_.astype(dtype))
    for name, extra in (tensors or {}).items():
        writer.add_tensor(name, extra)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf_name(name: str) -> str:
    stem, _, end = name.rpartition(".")
    if stem in NAMES:
        return f"{NAMES[stem]}.{end}"
    _, _, layer, stem = stem.split(".", 3)
    return f"blk.{layer}.{NAMES[stem]}.{end}"


def _as_converted(name: str, weight: Tensor, config: Any) -> np.ndarray:
    values = weight.float().numpy()
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if config.model_type != "llama" or heads is None:
        return values
    # dimension i of the first half of a head comes beside dimension i of the second
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)
