"""The options of the engine, as its commands read them, with a model that fits into the device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from bench.on_gpu.setup import GB, Setup
from engine.cli.main import ROOT
from engine.errors import EngineError
from engine.kv_cache import available_bytes
from engine.options import check_engine_options
from twin.cli.compose import compose
from twin.cli.options import check_options
from twin.memory import ModelShape, model_shape

ROOM = 0.9  # share of the free memory that may be taken
BESIDE_BYTES = 3 * GB  # activations, graphs, and a copy's source and target of the measurement
LEAST_CONTEXT = 16_384  # tokens whose keys and values should fit beside the weights


def options(words: tuple[str, ...], setup: Setup) -> dict[str, Any]:
    """The values of conf/engine.yaml with these words. Raises `UserError`."""
    config = compose([*words, f"engine.device={setup.device}"], root=ROOT).values
    check_options(config)
    check_engine_options(config)
    return config


def fitting_model(setup: Setup) -> tuple[tuple[str, ...], list[str]]:
    """The words for the model, with fewer layers if all of them do not fit; and what is to be said of that."""
    if setup.dry_run:
        return setup.model, []
    shape = model_shape(options(setup.model, setup)["model"])
    free = available_bytes(torch.device(setup.device))
    layers = layers_that_fit(shape, free)
    if layers == shape.layers:
        return setup.model, []
    note = f"{layers} of the {shape.layers} layers of {shape.name}: more do not fit into the free {free / GB:.1f} GB"
    return (*setup.model, f"model.layers={layers}"), [note]


def layers_that_fit(shape: ModelShape, free_bytes: int) -> int:
    """Layers whose weights fit, with the embedding twice (in transit) and keys and values of `LEAST_CONTEXT` tokens."""
    for layers in range(shape.layers, 0, -1):
        fewer = replace(shape, layers=layers)
        embedding = shape.vocab * shape.hidden * shape.dtype_bytes
        needed = fewer.total_weight_bytes + embedding + LEAST_CONTEXT * fewer.kv_bytes_per_token + BESIDE_BYTES
        if needed <= ROOM * free_bytes:
            return layers
    raise EngineError(f"{shape.name}: not even one layer fits into the free {free_bytes / GB:.1f} GB of the device")
