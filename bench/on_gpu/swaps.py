"""Blocks on their way to pinned host memory and back, in runs of different lengths, against copies in one piece.

Blocks of a run have consecutive numbers on both sides. The host's clock runs from the call to the moment when the device is
idle: transfers have a stream of their own, and starting them is part of what they cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import torch

from bench.on_gpu.budget import Deadline
from bench.on_gpu.items import Item, Note, Part, Row
from bench.on_gpu.setup import GB, Setup
from bench.on_gpu.timing import interleaved
from engine.kv_cache import KVCache, available_bytes, block_bytes
from engine.kv_transfers import STAGING_BYTES, runs
from engine.profile.stepper import fill_at_random

KV_HEADS, HEAD_DIM, BLOCK_SIZE, DTYPE = 8, 128, 16, torch.bfloat16  # of Llama 3.1 8B
MEMORY_SHARE = 4


def pairs(blocks: int, run: int) -> list[tuple[int, int]]:
    """All blocks, in runs: the last run of the one side is the first of the other, so that no two runs make a longer one."""
    count = blocks // run
    return [(run * i + j, run * (count - 1 - i) + j) for i in range(count) for j in range(run)]


def parts(setup: Setup) -> dict[str, Part]:
    return {"swap": measure}


def measure(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    device = torch.device(setup.device)
    size = block_bytes(setup.swap_layers, BLOCK_SIZE, KV_HEADS, HEAD_DIM, DTYPE)
    free = min(available_bytes(device), available_bytes(torch.device("cpu")))
    blocks = min(setup.swap_blocks, free // MEMORY_SHARE // size)
    if blocks < setup.swap_blocks:
        yield Note(f"swap: {blocks} blocks in place of {setup.swap_blocks}, as memory is small")
    cache = KVCache(setup.swap_layers, blocks, BLOCK_SIZE, KV_HEADS, HEAD_DIM, DTYPE, device, blocks)
    fill_at_random(cache, seed=0)
    timed = partial(settled_seconds, cache)
    host = cache.host_data  # pinned, if there is a device to pin it for
    on_device = torch.empty(host.shape, dtype=host.dtype, device=device)
    for run in (run for run in setup.run_lengths if run <= blocks):
        if deadline.is_over:
            yield Note(f"swap: no time for runs of {run} blocks and more")
            return
        moved = pairs(blocks, run)
        for way in ("out", "in"):
            transfers = [(way, *pair) for pair in moved]
            target, source = (host, on_device) if way == "out" else (on_device, host)
            seconds = interleaved({
                "plain": partial(timed, partial(target.copy_, source, non_blocking=True)),
                "blocks": partial(timed, partial(cache.apply, transfers)),
            }, setup.repeats)  # fmt: skip
            total = len(moved) * size
            yield Row("swap", {
                "way": way, "run_blocks": run, "copies": copies(moved, cache), "block_bytes": size, "gb": total / GB,
                "median_ms": seconds["blocks"] * 1e3, "gb_s": total / seconds["blocks"] / GB,
                "plain_gb_s": host.nbytes / seconds["plain"] / GB,
                "of_plain": total / seconds["blocks"] / (host.nbytes / seconds["plain"]), "pinned": host.is_pinned(),
            })  # fmt: skip


def copies(moved: list[tuple[int, int]], cache: KVCache) -> int:
    """That cross the link: runs, cut at the size of the staging buffer, which a CPU does without."""
    most = max(STAGING_BYTES // cache.block_bytes, 1) if cache.device.type == "cuda" else len(moved)
    return len(runs(moved, most=most))


def settled_seconds(cache: KVCache, launch: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    launch()
    if cache.device.type == "cuda":
        torch.cuda.synchronize(cache.device)
    return time.perf_counter() - began_s
