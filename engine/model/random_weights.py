"""Weights drawn at random, for step times and tests: any shape, no download."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from engine.model.config import ModelConfig
from engine.model.tensor_shapes import expected_shapes
from twin import keyed_draws

BIAS_DEVIATION = 0.02


class RandomTensors:
    """Normal draws, each tensor from its own seed: a tensor does not depend on which others were read before it.

    A matrix has deviation 1 / sqrt(inputs), so that what goes in with deviation 1 comes out so; what a layer adds to
    the residual stream is divided by sqrt(2 * layers), as there are so many additions. Norms are 1. Activations stay
    below 1 at any depth, logits near it. Draws are in fp32 on the given device; devices draw different numbers.
    """

    def __init__(self, config: ModelConfig, seed: int, device: torch.device) -> None:
        self.where = f"random weights of {config.name}"
        self.shapes: Mapping[str, tuple[int, ...]] = expected_shapes(config)
        self._additions = 2 * config.layers
        self._seeds = {name: keyed_draws.stream(seed, f"weights/{name}") >> 1 for name in self.shapes}
        self._device = device

    def read(self, name: str) -> Tensor:
        shape = self.shapes[name]
        if name.endswith("norm.weight"):
            return torch.ones(shape, device=self._device)
        generator = torch.Generator(self._device).manual_seed(self._seeds[name])
        drawn = torch.empty(shape, device=self._device).normal_(generator=generator)
        return drawn.mul_(self._deviation(name, shape))

    def _deviation(self, name: str, shape: tuple[int, ...]) -> float:
        if name.endswith(".bias"):
            return BIAS_DEVIATION
        deviation = 1 / math.sqrt(shape[-1])
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            deviation /= math.sqrt(self._additions)
        return deviation
