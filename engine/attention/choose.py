"""Which attention back end: what `attention=` says, or the best that the device can have."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch

from engine.attention.base import AttentionBackend
from engine.errors import EngineError

NAMES = ("auto", "torch", "cpu", "triton", "cuda")


class Choice(NamedTuple):
    """A back end, and what a user should know of how it was chosen ("" if nothing)."""

    backend: AttentionBackend
    note: str = ""


def attention_backend(name: str, device: torch.device, head_dim: int) -> Choice:
    """The back end of that name. Raises `EngineError` where device or head size do not allow it; `auto` tells why not."""
    if name not in NAMES:
        raise EngineError(f"attention={name}: must be one of {', '.join(NAMES)}")
    if name == "auto":
        return _best(device, head_dim)
    return Choice(_make(name, device, head_dim))


def _best(device: torch.device, head_dim: int) -> Choice:
    """The fastest first; whatever cannot be had is named, never passed over in silence."""
    reasons = []
    for name in ("cuda", "triton", "torch") if device.type == "cuda" else ("cpu", "torch"):
        try:
            backend = _make(name, device, head_dim)
        except EngineError as error:
            reasons.append(str(error))
            continue
        return Choice(backend, f"attention={name} ({'; '.join(reasons)})" if reasons else "")
    raise AssertionError("attention=torch can always be had")


def _make(name: str, device: torch.device, head_dim: int) -> AttentionBackend:
    if name == "torch":
        from engine.attention.torch_backend import TorchAttention

        return TorchAttention()
    if name == "cpu":
        if device.type != "cpu":
            raise EngineError(f"attention=cpu: the model is on {device}; choose attention=triton or cuda")
        from engine.attention.cpu.backend import CpuAttention

        if why := CpuAttention.why_not():
            raise EngineError(f"attention=cpu: {why}; attention=torch needs nothing")
        return CpuAttention()
    if name == "triton":
        from engine.attention.triton.backend import TritonAttention

        return TritonAttention(device)
    if device.type != "cuda":
        raise EngineError(f"attention=cuda: the model is on {device}; choose attention=cpu or torch, or engine.device=cuda")
    from engine.attention.cuda.backend import CudaAttention

    return CudaAttention(device, head_dim)
