"""A model in one GGUF file: metadata, and tensors that are dequantized one by one as they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.errors import EngineError
from engine.model.config import ModelConfig
from engine.model.gguf_config import from_gguf
from engine.model.gguf_header import TensorInfo, read_header
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


class GgufFile:
    """Configuration and tensors of a file; `shapes` and `read` speak Hugging Face's names."""

    def __init__(self, file: Path) -> None:
        self.where = str(file)
        header = read_header(file)
        self._bytes = np.memmap(file, np.uint8, "r")
        tensors = {tensor.name: tensor for tensor in header.tensors}
        self._check_that_all_are_there(tensors)
        factors = tensors.pop(FREQUENCY_FACTORS, None)
        self.config: ModelConfig = from_gguf(
            header.metadata,
            {name: tensor.shape for name, tensor in tensors.items()},
            self._type_name(tensors["token_embd.weight"]) if "token_embd.weight" in tensors else "",
            None if factors is None else tuple(map(float, self._values(factors))),
            self.where,
        )
        self._tensors = {huggingface_name(name): tensor for name, tensor in tensors.items()}
        self.shapes: Mapping[str, tuple[int, ...]] = {name: tensor.shape for name, tensor in self._tensors.items()}

    def read(self, name: str) -> Tensor:
        values = torch.from_numpy(np.array(self._values(self._tensors[name])))
        if self.config.architecture == "llama":
            if ".q_proj." in name:
                values = halves_from_pairs(values, self.config.heads)
            elif ".k_proj." in name:
                values = halves_from_pairs(values, self.config.kv_heads)
        return values

    def _values(self, tensor: TensorInfo) -> np.ndarray:
        """fp32, in the tensor's shape."""
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        rows = self._bytes[tensor.offset : tensor.offset + self._size(tensor)].reshape(*tensor.shape[:-1], -1)
        try:
            return dequantize(rows, GGMLQuantizationType(tensor.type_number))
        except NotImplementedError:
            raise EngineError(f"{self.where}: {tensor.name} is {self._type_name(tensor)}, which cannot be read") from None

    def _size(self, tensor: TensorInfo) -> int:
        """Bytes; an element type stores rows in groups of elements."""
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        group, group_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(tensor.type_number)]
        if tensor.shape[-1] % group:
            raise EngineError(f"{self.where}: {tensor.name} has rows of {tensor.shape[-1]}, not a multiple of {group}")
        return math.prod(tensor.shape) // group * group_bytes

    def _type_name(self, tensor: TensorInfo) -> str:
        from gguf import GGMLQuantizationType

        try:
            return GGMLQuantizationType(tensor.type_number).name
        except ValueError:
            raise EngineError(f"{self.where}: {tensor.name} is of type {tensor.type_number}, which is not known") from None

    def _check_that_all_are_there(self, tensors: Mapping[str, TensorInfo]) -> None:
        for tensor in tensors.values():
            self._type_name(tensor)
            end = tensor.offset + self._size(tensor)
            if end > len(self._bytes):
                raise EngineError(
                    f"{self.where}: not a whole GGUF file: {tensor.name} ends at byte {end}, the file at {len(self._bytes)}"
                )


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
