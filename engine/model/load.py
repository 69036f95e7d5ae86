"""A model from what a user names: a folder, a GGUF file, the embedded one, or random weights of a configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from engine.device_name import device_named
from engine.errors import EngineError
from engine.model.config import ModelConfig
from engine.model.embedded import NAME, embedded_gguf
from engine.model.linear import Linear, LinearFactory
from engine.model.ops import Ops, TorchOps
from engine.model.room import check_room
from engine.model.transformer import Transformer
from engine.model.weights import TORCH_DTYPES, TensorSource, load_weights

EMBEDDED = "smollm2"


def load_model(
    source: str | Path | ModelConfig,
    dtype: str | None = None,
    device: str | torch.device = "cpu",
    ops: Ops | None = None,
    seed: int = 0,
    max_len: int | None = None,
    linear: LinearFactory = Linear,
) -> Transformer:
    """A transformer, ready to run.

    `source`: the folder of a Hugging Face model, a .gguf file, "smollm2" for the embedded one, or a configuration, whose
    weights are drawn at random with `seed`. `dtype` (fp32, fp16, bf16; None: the checkpoint's) is of weights and
    activations. `max_len`: the longest context in tokens; None: the positions of the training. `ops` and `linear` compute
    the small operations and the matrix products; plain torch where nothing is given.
    """
    place = device_named(str(device))
    config, tensors = _opened(source, seed, place)
    dtype = dtype or config.dtype
    if dtype not in TORCH_DTYPES:
        raise EngineError(f"dtype={dtype}: {', '.join(TORCH_DTYPES)} are understood")
    check_room(config, dtype, place)
    weights = load_weights(config, tensors, TORCH_DTYPES[dtype], place, linear)
    return Transformer(config, weights, ops or TorchOps(), max_len)


def model_file(source: str | Path) -> Path:
    """The folder or GGUF file that a name stands for: where configuration, weights and tokenizer are."""
    path = embedded_gguf() if source == EMBEDDED else Path(source)
    if not path.exists():
        raise EngineError(f"model {source}: no such folder or file; give a model folder, a .gguf file, or {EMBEDDED}")
    if path.is_file() and path.suffix != ".gguf":
        raise EngineError(f"model {source}: of single files only .gguf is read; give the folder of a Hugging Face model")
    return path


def _opened(source: str | Path | ModelConfig, seed: int, device: torch.device) -> tuple[ModelConfig, TensorSource]:
    if isinstance(source, ModelConfig):
        from engine.model.random_weights import RandomTensors

        return source, RandomTensors(source, seed, device)
    path = model_file(source)
    if path.is_file():
        from engine.model.gguf_file import GgufFile

        file = GgufFile(path)
        return replace(file.config, name=NAME) if source == EMBEDDED else file.config, file
    from engine.model.safetensors_folder import SafetensorsFolder, read_config

    return read_config(path), SafetensorsFolder(path)
