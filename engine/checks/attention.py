"""Every attention back end against the definition, over a compact set of shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch

from engine.attention.base import AttentionBackend
from engine.attention.choose import NAMES, Wanted, make
from engine.attention.fp8 import FP8
from engine.checks.case import run
from engine.checks.cases import CASES, make_case
from engine.checks.outcome import PASSED, Measured, Outcome, judged, worst

BACKENDS = tuple(name for name in NAMES if name != "auto")
FEW = (
    "decode ragged", "decode at block edges (eng-04)", "mixed and padded", "a prefill reads what another writes",
    "groups of 7",
)  # fmt: skip
HEAD_DIM, BLOCK_SIZE = 64, 16  # of make_case, where nothing is said
HEAD_DIMS = (96, 128, 256)


class Layer(NamedTuple):
    """What a model asks of attention."""

    model: str
    heads: int
    kv_heads: int
    head_dim: int
    block_size: int
    dtype: torch.dtype
    kv_dtype: torch.dtype


class Group(NamedTuple):
    """Cases that are told in one line."""

    about: str
    cases: list[dict[str, Any]]  # arguments of make_case


def groups(device: torch.device, layer: Layer) -> list[Group]:
    """The compact set, and steps of the layer in question."""
    usual = torch.float32 if device.type == "cpu" else torch.bfloat16
    return [
        Group("fp32, all kinds", list(CASES.values())),
        Group("fp16", [CASES[name] | {"dtype": torch.float16} for name in FEW]),
        Group("bf16", [CASES[name] | {"dtype": torch.bfloat16} for name in FEW]),
        Group("fp8 cache", [CASES[name] | {"dtype": torch.bfloat16, "cache_dtype": FP8} for name in FEW]),
        Group(
            f"heads of {'/'.join(map(str, HEAD_DIMS))}",
            [CASES["mixed"] | {"dim": dim, "dtype": usual} for dim in HEAD_DIMS],
        ),
        Group(layer.model, steps_of(layer)),
    ]


def steps_of(layer: Layer) -> list[dict[str, Any]]:
    """Decodes at the edges of blocks, and a mixed step."""
    block = layer.block_size
    shape = {
        "heads": layer.heads, "kv_heads": layer.kv_heads, "dim": layer.head_dim, "block_size": block,
        "dtype": layer.dtype, "cache_dtype": layer.kv_dtype,
    }  # fmt: skip
    return [
        {"query_lens": [1] * 4, "contexts": [1, block, block + 1, 3 * block], **shape},
        {"query_lens": [1, 1, 9, 20], "contexts": [50, 2 * block, 9, 33], **shape},
    ]


def backend_for(
    name: str, device: torch.device, head_dim: int = HEAD_DIM, block_size: int = BLOCK_SIZE,
    cache_dtype: torch.dtype = torch.bfloat16,
) -> AttentionBackend:  # fmt: skip
    """The back end of that name. Raises `EngineError` where this machine or the shape does not allow it."""
    return make(name, Wanted(device, head_dim, block_size, cache_dtype)).backend


def check_attention(device: torch.device, layer: Layer) -> Iterator[Outcome]:
    """An outcome a back end and group; a back end that cannot be had is named once, with the reason."""
    for name in BACKENDS:
        what = f"attention={name}"
        there = judged(str(device), what, "", partial(_can_be_had, name, device))
        if there.verdict != PASSED:
            yield there
            continue
        for group in groups(device, layer):
            about = f"{group.about} ({len(group.cases)} steps)"
            yield judged(str(device), what, about, partial(errors_of, name, device, group))


def _can_be_had(name: str, device: torch.device) -> Measured:
    backend_for(name, device)
    return Measured()


def errors_of(name: str, device: torch.device, group: Group) -> Measured:
    """The worst of a group: caches to the bit after `write`, results within their tolerance. Raises `Wrong`."""
    errors = []
    for arguments in group.cases:
        case = make_case(**arguments, device=device)
        _, block_size, _, head_dim = case.k_cache.shape
        backend = backend_for(name, device, head_dim, block_size, case.k_cache.dtype)
        errors.append(Measured(case.check(run(backend, case)), case.tolerance))
    return worst(errors)
