"""A model in one GGUF file: metadata, and tensors that are dequantized one by one as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.errors import EngineError
from engine.model.config import ModelConfig
from engine.model.gguf_config import from_gguf
from engine.model.tensor_shapes import EMBEDDING, FINAL_NORM, HEAD, layer_prefix

WHOLE_MODEL = {"token_embd.weight": EMBEDDING, "output_norm.weight": FINAL_NORM, "output.weight": HEAD}
IN_A_LAYER = {  # GGUF's name after blk.N. -> Hugging Face's after model.layers.N.
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
FREQUENCY_FACTORS = "rope_freqs.weight"
TOKENIZER = "tokenizer.ggml."
MALFORMED = (ValueError, IndexError, KeyError, OverflowError, TypeError, AttributeError)  # the reader's, of a broken file


class GgufFile:
    """Configuration and tensors of a file; `shapes` and `read` speak Hugging Face's names."""

    def __init__(self, file: Path) -> None:
        from gguf import GGUFReader

        self.where = str(file)
        if not file.is_file():
            raise EngineError(f"{file}: no such file")
        try:
            reader = GGUFReader(file)
            metadata = {key: field.contents() for key, field in reader.fields.items() if _is_wanted(key)}
        except MALFORMED as error:
            raise EngineError(f"{file}: not a whole GGUF file ({_one_line(error)})") from None
        tensors = {tensor.name: tensor for tensor in reader.tensors}
        factors = tensors.pop(FREQUENCY_FACTORS, None)
        self.config: ModelConfig = from_gguf(
            metadata,
            {name: _shape(tensor) for name, tensor in tensors.items()},
            tensors["token_embd.weight"].tensor_type.name if "token_embd.weight" in tensors else "",
            None if factors is None else tuple(float(factor) for factor in factors.data),
            self.where,
        )
        self._tensors = {huggingface_name(name): tensor for name, tensor in tensors.items()}
        self.shapes: Mapping[str, tuple[int, ...]] = {name: _shape(tensor) for name, tensor in self._tensors.items()}

    def read(self, name: str) -> Tensor:
        from gguf.quants import dequantize

        tensor = self._tensors[name]
        try:
            numbers = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            raise EngineError(f"{self.where}: {tensor.name} is {tensor.tensor_type.name}, which cannot be read") from None
        values = torch.from_numpy(np.array(numbers, dtype=np.float32))
        if self.config.architecture == "llama":
            if ".q_proj." in name:
                values = halves_from_pairs(values, self.config.heads)
            elif ".k_proj." in name:
                values = halves_from_pairs(values, self.config.kv_heads)
        return values


def huggingface_name(name: str) -> str:
    """Hugging Face's name of a tensor of a GGUF file; one without counterpart keeps its own."""
    if name in WHOLE_MODEL:
        return WHOLE_MODEL[name]
    block, _, rest = name.removeprefix("blk.").partition(".")
    stem, _, kind = rest.rpartition(".")
    if not name.startswith("blk.") or not block.isdigit() or stem not in IN_A_LAYER:
        return name
    return f"{layer_prefix(int(block))}{IN_A_LAYER[stem]}.{kind}"


def halves_from_pairs(rows: Tensor, heads: int) -> Tensor:
    """Rows [heads * dim, ...] of a query or key projection, from GGUF's order for llama to Hugging Face's.

    There dimensions 2i and 2i + 1 of a head turn together; here i and i + dim / 2 do. Other architectures have ours.
    """
    pairs = rows.shape[0] // heads // 2
    return rows.view(heads, pairs, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


def _shape(tensor: Any) -> tuple[int, ...]:
    """Outputs first; GGUF has the innermost dimension first."""
    return tuple(int(size) for size in reversed(tensor.shape))


def _is_wanted(key: str) -> bool:
    """Lists of tokens and merges are the tokenizer's, and long."""
    return not key.startswith(TOKENIZER) or key.endswith("_token_id")


def _one_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
