"""The small operations of a layer, in plain torch: any device, any dtype.

A transformer is given an object with these methods; others may compute the same in fewer passes over memory.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Ops(Protocol):
    """Rows may be views into a larger tensor: only the last dimension is sure to be contiguous."""

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """x / sqrt(mean(x^2) + eps) * weight over the last dimension, computed in fp32; x of any number of dimensions."""
        ...

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """(rms_norm(x + residual), x + residual), both [tokens, hidden]. The sum may overwrite `residual`."""
        ...

    def rope(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """q [tokens, heads, dim] and k [tokens, kv_heads, dim], turned by the angles of `positions` [tokens].

        cos, sin: fp32 [positions, dim / 2]. Dimension i turns with i + dim / 2. It may happen in place.
        """
        ...

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """silu(gate) * up of [tokens, 2 intermediate], gate first -> [tokens, intermediate]."""
        ...


class TorchOps:
    """`Ops` by torch alone."""

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, eps)

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        residual.add_(x)
        return F.rms_norm(residual, weight.shape, weight, eps), residual

    def rope(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = cos[positions].unsqueeze(1), sin[positions].unsqueeze(1)  # [tokens, 1, dim / 2]
        return _turned(q, cos, sin), _turned(k, cos, sin)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, -1)
        return F.silu(gate).mul_(up)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)
