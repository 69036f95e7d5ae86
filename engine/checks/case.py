"""One step of one layer with its answer, and how far a back end is from it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from engine.attention.base import AttentionBackend, AttentionBatch
from engine.attention.fp8 import FP8

# Largest |difference| allowed is TOLERANCE * (1 + |expected|). Values are drawn from N(0, 1). fp16 and bf16 round the result
# (2^-11, 2^-8 of it) and may round the probabilities before the product with V.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


class Wrong(AssertionError):
    """A back end has done something else than the definition; the text says what."""


@dataclass
class Case:
    """One step of one layer: what a back end is given, and what must come out."""

    q: Tensor  # [tokens, heads, dim]
    k: Tensor  # [tokens, kv_heads, dim]
    v: Tensor
    k_cache: Tensor  # [blocks, block_size, kv_heads, dim] before the step
    v_cache: Tensor
    k_written: Tensor  # the same after `write`
    v_written: Tensor
    k_scale: Tensor  # fp32 [kv_heads], other than 1 for an fp8 cache
    v_scale: Tensor
    batch: AttentionBatch
    scale: float
    expected: Tensor  # fp32 [tokens, heads, dim]

    def to(self, device: str | torch.device) -> Case:
        moved = {field.name: getattr(self, field.name) for field in fields(self)}
        batch = {field.name: getattr(self.batch, field.name) for field in fields(self.batch)}
        moved["batch"] = AttentionBatch(**{name: _to(value, device) for name, value in batch.items()})
        return Case(**{name: _to(value, device) for name, value in moved.items()})

    def check(self, result: Tensor) -> float:
        """The error of `attend`'s result, |difference| / (1 + |expected|) at its worst.

        Raises `Wrong` unless it has dtype and shape of q, no NaN, zeros for padding, and is within the tolerance.
        """
        if result.dtype != self.q.dtype or result.shape != self.q.shape:
            raise Wrong(f"attend gave {result.dtype} {list(result.shape)} for {self.q.dtype} {list(self.q.shape)}")
        padding = [row for row, slot in enumerate(self.batch.slots.tolist()) if slot < 0]
        if result[padding].any():
            raise Wrong("rows of padding must be zeros")
        errors = (result.float() - self.expected).abs() / (1 + self.expected.abs())
        worst = float(errors.max())
        if not worst <= self.tolerance:  # NaN is not
            token, head, _ = (
                (errors.nan_to_num(nan=torch.inf) == errors.nan_to_num(nan=torch.inf).max()).nonzero()[0].tolist()
            )
            raise Wrong(f"attend is not close: off by {worst:.3g} at token {token}, head {head}, {self.tolerance:g} allowed")
        return worst

    def check_written(self, k_cache: Tensor, v_cache: Tensor) -> None:
        """The caches after `write`: what was not to be written is the same to the bit, what was is rightly rounded.

        fp8: a back end may multiply by 1 / scale where the definition divides; a tie may then fall to the other side.
        """
        for cache, before, written in ((k_cache, self.k_cache, self.k_written), (v_cache, self.v_cache, self.v_written)):
            new, same = ~_same_bits(before, written), _same_bits(cache, written)
            if not same[~new].all():
                raise Wrong("write: a slot was written that is not of this step")
            if cache.dtype != FP8:
                if not same.all():
                    raise Wrong("write: a row lies elsewhere, or was rounded otherwise")
            elif not torch.allclose(cache.float()[new], written.float()[new], atol=2**-9, rtol=2**-3):
                raise Wrong("write: a value is not close to what fp8 should hold")
            elif same[new].sum() < 0.95 * new.sum():
                raise Wrong("write: ties are rare, and more than 5 % of the values were rounded otherwise")

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.q.dtype]


def run(backend: AttentionBackend, case: Case) -> Tensor:
    """Write and attend on copies of the caches; the caches are checked."""
    k_cache, v_cache = case.k_cache.clone(), case.v_cache.clone()
    backend.write(case.k, case.v, k_cache, v_cache, case.batch, case.k_scale, case.v_scale)
    case.check_written(k_cache, v_cache)
    # Attend on the definition's own caches: a tie of fp8 that fell to the other side is no error of `attend`.
    return attend(backend, case)


def attend(backend: AttentionBackend, case: Case) -> Tensor:
    """`attend` alone, after a right `write`; it changes neither cache nor queries."""
    q, k_cache, v_cache = case.q.clone(), case.k_written.clone(), case.v_written.clone()
    result = backend.attend(q, k_cache, v_cache, case.batch, case.scale, case.k_scale, case.v_scale)
    if not (_same_bits(k_cache, case.k_written).all() and _same_bits(v_cache, case.v_written).all()):
        raise Wrong("attend wrote to a cache")
    if not torch.equal(q, case.q):
        raise Wrong("attend changed the queries")
    return result


def _same_bits(a: Tensor, b: Tensor) -> Tensor:
    """NaN is the same as NaN here."""
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32}[a.element_size()]
    return a.view(integer) == b.view(integer)


def _to(value: Any, device: str | torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value
