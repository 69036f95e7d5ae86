"""The small operations of a layer, each compiled by torch.compile: the alternative to hand-written ones, on any device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.model.ops import TorchOps


class CompiledOps:
    """`Ops`, as `TorchOps` defines them; numbers of rows are dynamic, so that each is compiled about once."""

    def __init__(self, device: torch.device, backend: str = "inductor") -> None:
        """EngineError where nothing can be compiled for the device."""
        ops = TorchOps()
        methods: tuple[Any, ...] = (ops.rms_norm, ops.add_rms_norm, ops.rope, ops.silu_mul)
        self._rms_norm, self._add_rms_norm, self._rope, self._silu_mul = (
            torch.compile(method, dynamic=True, backend=backend) for method in methods
        )
        try:
            self.silu_mul(torch.ones(2, 16, device=device))
        except RuntimeError as error:  # torch's compilers raise it, whatever went wrong
            reason = next(line for line in str(error).splitlines() if line.strip())
            raise EngineError(f"engine.compile=true: torch.compile does not work here ({reason[:200]})") from error

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        made: Tensor = self._rms_norm(x, weight, eps)
        return made

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        made: tuple[Tensor, Tensor] = self._add_rms_norm(x, residual, weight, eps)
        return made

    def rope(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        made: tuple[Tensor, Tensor] = self._rope(q, k, cos, sin, positions)
        return made

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        made: Tensor = self._silu_mul(gate_up)
        return made
