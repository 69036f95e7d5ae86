"""How many blocks the cache gets where nothing is said."""

from __future__ import annotations

from typing import Any

import torch

from engine.errors import EngineError
from engine.kv_cache import GIB, available_bytes
from twin.memory import ModelShape
from twin.memory.plan import activation_peak

CPU_CACHE_BYTES = 1 * GIB  # of the KV cache on a CPU; a quarter of what is free, if that is less
SWAP_SHARE = 0.5  # of the host's free memory, at most


def device_blocks(config: dict[str, Any], device: torch.device, shape: ModelShape, block_bytes: int) -> tuple[int, str]:
    """Blocks for the device's pool once the weights are there, and how that comes about, in words.

    On a GPU by vLLM's rule: its memory x `cache.gpu_memory_utilization`, less what is in use, less the peak of the
    activations (recorded graphs work in that). One block more is allocated, which is nobody's.
    """
    scheduler, cache = config["scheduler"], config["cache"]
    free = available_bytes(device)
    if device.type == "cpu":
        budget = min(CPU_CACHE_BYTES, free // 4)
        why = f"{budget / GIB:.2f} GiB: 1 GiB, or a quarter of what is free"
    else:
        total = torch.cuda.mem_get_info(device)[1]
        share, used = cache["gpu_memory_utilization"], total - free
        peak = activation_peak(shape, scheduler["max_num_batched_tokens"], scheduler["max_num_seqs"])
        budget = int(total * share) - used - peak
        why = f"{share:g} of {total / GIB:.2f} GiB - in use {used / GIB:.2f} - activations {peak / GIB:.2f}"
    if budget < 2 * block_bytes:
        raise EngineError(
            f"cache: {why} leave no room for two blocks of {block_bytes:,} bytes; a smaller model or more memory would fit"
        )
    return budget // block_bytes - 1, f"{why}, {block_bytes / 2**20:.4g} MiB a block"


def host_blocks(config: dict[str, Any], block_bytes: int) -> tuple[int, list[str]]:
    """Blocks for the host's pool, by `cache.swap_space_gib`, and a note where the host has less to give."""
    asked = int(config["cache"]["swap_space_gib"] * GIB) // block_bytes
    most = int(available_bytes(torch.device("cpu")) * SWAP_SHARE) // block_bytes
    if asked <= most:
        return asked, []
    return most, [f"cache.num_cpu_blocks={most:,}: half of the host's free memory, less than cache.swap_space_gib asks for"]
