"""Which attention back end: what `attention=` says, or the best that the device can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from engine.attention.base import AttentionBackend
from engine.errors import EngineError

NAMES = ("auto", "torch", "cpu", "triton", "cuda")
BEST = {"cuda": ("cuda", "triton", "torch"), "cpu": ("cpu", "torch")}  # the fastest first, by type of device


@dataclass(frozen=True)
class Wanted:
    """What a back end has to serve."""

    device: torch.device
    head_dim: int
    block_size: int  # tokens
    cache_dtype: torch.dtype


class Choice(NamedTuple):
    """A back end, and what a user should know of how it was chosen ("" if nothing)."""

    backend: AttentionBackend
    note: str = ""


def attention_backend(name: str, wanted: Wanted) -> Choice:
    """The back end of that name. Raises `EngineError` where it cannot serve what is wanted.

    `auto` takes the first of `BEST` that can, and says of those before it why they cannot.
    """
    if name not in NAMES:
        raise EngineError(f"attention={name}: must be one of {', '.join(NAMES)}")
    if name != "auto":
        return make(name, wanted)
    reasons = []
    for candidate in BEST.get(wanted.device.type, ("torch",)):
        try:
            backend, note = make(candidate, wanted)
        except EngineError as error:
            reasons.append(str(error))
            continue
        notes = [f"attention={candidate} ({'; '.join(reasons)})"] if reasons else []
        return Choice(backend, "; ".join([*notes, note] if note else notes))
    raise AssertionError("attention=torch can always be had")


def make(name: str, wanted: Wanted) -> Choice:
    """Raises `EngineError` where device, head size, block size or dtype do not allow it."""
    device = wanted.device
    if name == "torch":
        from engine.attention.torch_backend import TorchAttention

        return Choice(TorchAttention())
    if name == "cpu":
        if device.type != "cpu":
            raise EngineError(f"attention=cpu: the model is on {device}; choose attention=triton or cuda")
        from engine.attention.cpu.backend import CpuAttention

        if why := CpuAttention.why_not():
            raise EngineError(f"attention=cpu: {why}; attention=torch needs nothing")
        return Choice(CpuAttention())
    if name == "triton":
        from engine.attention.triton.backend import TritonAttention

        return Choice(TritonAttention(device, wanted.head_dim))
    if device.type != "cuda":
        raise EngineError(f"attention=cuda: the model is on {device}; choose attention=cpu or torch, or engine.device=cuda")
    from engine.attention.cuda.backend import make_cuda_attention

    prefill, note = _prefill(wanted)
    return Choice(make_cuda_attention(wanted.head_dim, wanted.block_size, wanted.cache_dtype, device, prefill), note)


def _prefill(wanted: Wanted) -> Choice:
    """For the rows that the CUDA kernels leave to others: Triton where it can be had, else torch."""
    try:
        return make("triton", wanted)
    except EngineError as error:
        return Choice(make("torch", wanted).backend, f"prompts are computed by attention=torch ({error})")
