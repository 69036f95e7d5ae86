"""Blocks that go to the host, come back and are copied: every bit arrives, and nothing else changes."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention.fp8 import FP8
from engine.checks.case import Wrong
from engine.checks.outcome import Measured
from engine.kv_cache import KVCache

BLOCKS, HOST_BLOCKS = 24, 12
DTYPES = (torch.float32, torch.bfloat16, FP8)
OUT = [(3, 0), (4, 1), (5, 2), (17, 7), (9, 3)]  # (from, to): a run of three, then single ones
BACK = [(0, 20), (1, 21), (2, 22), (7, 11), (3, 2)]  # to other blocks than they came from
COPIES = [(20, 6), (11, 12), (6, 13)]  # the last one copies a copy


def check_transfers(device: torch.device, dtype: torch.dtype) -> Measured:
    """The transfers of a step, made by the cache, against the same assignments one by one. Raises `Wrong`."""
    cache = KVCache(2, BLOCKS, 16, 2, 64, dtype, device, HOST_BLOCKS)
    _fill(cache)
    wanted, wanted_host = _bytes(cache.data).clone(), _bytes(cache.host_data).clone()
    transfers = [("out", *pair) for pair in OUT] + [("in", *pair) for pair in BACK] + [("copy", *pair) for pair in COPIES]
    for way, source, target in transfers:
        if way == "out":
            wanted_host[target] = wanted[:, :, source]
        else:
            wanted[:, :, target] = wanted_host[source] if way == "in" else wanted[:, :, source]
    cache.apply(transfers)
    cache.synchronize()
    _compare("on the device", _bytes(cache.data), wanted, 2)
    _compare("on the host", _bytes(cache.host_data), wanted_host, 0)
    return Measured()


def _fill(cache: KVCache) -> None:
    """Random bits, NaN among them: blocks are moved, not computed with."""
    random = torch.Generator().manual_seed(0)
    for data in (cache.data, cache.host_data):
        raw = torch.randint(0, 256, (data.numel() * data.element_size(),), generator=random, dtype=torch.uint8)
        data.view(torch.uint8).copy_(raw.view(data.view(torch.uint8).shape))


def _bytes(data: Tensor) -> Tensor:
    return data.view(torch.uint8).cpu()


def _compare(where: str, found: Tensor, wanted: Tensor, block_dim: int) -> None:
    differs = (found != wanted).movedim(block_dim, 0).flatten(1).any(1)
    if differs.any():
        raise Wrong(f"blocks {differs.nonzero().flatten().tolist()} {where} do not hold what they should")
