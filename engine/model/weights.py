"""The weights of a model on its device, and how they get there from any source of tensors.

Tensors go one by one straight to the device and dtype, so that loading takes the memory of the weights and of one more
tensor. Queries, keys and values are one matrix, and so are gate and up: fewer, larger products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.model.config import ModelConfig
from engine.model.linear import Linear, LinearFactory, MatrixProduct
from engine.model.tensor_shapes import EMBEDDING, FINAL_NORM, HEAD, expected_shapes, layer_prefix

TORCH_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
NAMED_IN_COMPLAINTS = 3  # tensors; the others are counted


class TensorSource(Protocol):
    """Where tensors come from: a folder, a GGUF file, a random generator."""

    where: str  # in complaints

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Hugging Face's name -> shape of every tensor there is; known before any is read."""
        ...

    def read(self, name: str) -> Tensor:
        """One tensor, of any floating type, wherever the source makes it."""
        ...


@dataclass(slots=True)
class LayerWeights:
    """One layer; D = head_dim, I = intermediate."""

    input_norm: Tensor  # [hidden]
    qkv: MatrixProduct  # hidden -> (heads + 2 kv_heads) D: queries, keys, values
    q_norm: Tensor | None  # [D]
    k_norm: Tensor | None  # [D]
    output: MatrixProduct  # heads D -> hidden
    post_norm: Tensor  # [hidden]
    gate_up: MatrixProduct  # hidden -> 2 I: gate, up
    down: MatrixProduct  # I -> hidden


@dataclass(slots=True)
class Weights:
    embedding: Tensor  # [vocab, hidden]
    layers: list[LayerWeights]
    final_norm: Tensor  # [hidden]
    head: MatrixProduct  # hidden -> vocab; of a tied model over the embedding's own memory, unless its layout differs

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.embedding.device


def load_weights(
    config: ModelConfig,
    source: TensorSource,
    dtype: torch.dtype,
    device: torch.device,
    linear_factory: LinearFactory = Linear,
) -> Weights:
    """All weights of the configuration, after a check that the source has just these."""
    shapes = expected_shapes(config)
    _check(shapes, source)

    def one(name: str) -> Tensor:
        return source.read(name).to(device=device, dtype=dtype)

    def stacked(names: list[str]) -> Tensor:
        """The rows of some tensors, one after the other."""
        rows = [shapes[name][0] for name in names]
        whole = torch.empty((sum(rows), *shapes[names[0]][1:]), dtype=dtype, device=device)
        for part, name in zip(whole.split(rows), names, strict=True):
            part.copy_(source.read(name))
        return whole

    def linear(*names: str) -> MatrixProduct:
        biases = [f"{name}.bias" for name in names]
        matrix = stacked([f"{name}.weight" for name in names])
        return linear_factory(matrix, stacked(biases) if biases[0] in shapes else None)

    embedding = one(EMBEDDING)
    return Weights(
        embedding=embedding,
        layers=[_layer(layer_prefix(layer), config.qk_norm, one, linear) for layer in range(config.layers)],
        final_norm=one(FINAL_NORM),
        head=linear_factory(embedding if config.tied else one(HEAD)),
    )


def _layer(prefix: str, qk_norm: bool, one: Callable[[str], Tensor], linear: Callable[..., MatrixProduct]) -> LayerWeights:
    attention, mlp = prefix + "self_attn.", prefix + "mlp."
    return LayerWeights(
        input_norm=one(prefix + "input_layernorm.weight"),
        qkv=linear(attention + "q_proj", attention + "k_proj", attention + "v_proj"),
        q_norm=one(attention + "q_norm.weight") if qk_norm else None,
        k_norm=one(attention + "k_norm.weight") if qk_norm else None,
        output=linear(attention + "o_proj"),
        post_norm=one(prefix + "post_attention_layernorm.weight"),
        gate_up=linear(mlp + "gate_proj", mlp + "up_proj"),
        down=linear(mlp + "down_proj"),
    )


def _check(expected: Mapping[str, tuple[int, ...]], source: TensorSource) -> None:
    there = source.shapes
    missing = [name for name in expected if name not in there]
    if missing:
        raise EngineError(f"{source.where}: tensors are missing: {_some(missing)}")
    unexpected = [name for name in there if name not in expected and not _is_spare(name, expected)]
    if unexpected:
        raise EngineError(f"{source.where}: tensors that the configuration has no place for: {_some(unexpected)}")
    for name, shape in expected.items():
        if tuple(there[name]) != shape:
            raise EngineError(f"{source.where}: {name} is {_text(there[name])}; the configuration says {_text(shape)}")


def _is_spare(name: str, expected: Mapping[str, tuple[int, ...]]) -> bool:
    """Tensors that say nothing new: tables of old checkpoints, and the second copy of a tied head."""
    return name.endswith(".rotary_emb.inv_freq") or (name == HEAD and HEAD not in expected)


def _some(names: list[str]) -> str:
    rest = len(names) - NAMED_IN_COMPLAINTS
    return ", ".join(names[:NAMED_IN_COMPLAINTS]) + (f" and {rest} more" if rest > 0 else "")


def _text(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
