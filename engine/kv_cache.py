"""The paged KV cache: where keys and values lie, on the device and on the host.

    data       [2][layers][blocks + 1, block_size, kv_heads, head_dim]     K and V of a layer: data[0, layer], data[1, layer]
    host_data  [host blocks][2][layers][block_size, kv_heads, head_dim]

Block ids are those of the scheduler core (`twin.core.block_pool`): 0 .. num_blocks - 1, none of them reserved. The block
behind them, `spare_block`, is nobody's: a kernel that cannot leave a row of padding out may have it written there. The core
never hands it out and nothing reads it.

On the device a layer's blocks lie together, as a kernel reads them. On the host a block's layers lie together, since it is
whole blocks that go there and come back (kv_transfers.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from engine.attention.fp8 import FP8, FP8_MAX
from engine.errors import EngineError
from engine.kv_transfers import BlockTransfers

DTYPES = (torch.float32, torch.float16, torch.bfloat16, FP8)
GIB = 1 << 30


class KVCache:
    """Storage for `num_blocks` blocks on the device and `num_host_blocks` on the host, with the scales of an fp8 cache."""

    def __init__(
        self, layers: int, num_blocks: int, block_size: int, kv_heads: int, head_dim: int, dtype: torch.dtype,
        device: torch.device | str, num_host_blocks: int = 0,
    ) -> None:  # fmt: skip
        if dtype not in DTYPES:
            raise EngineError(f"kv cache: dtype {dtype} is not supported; it can be one of {', '.join(map(str, DTYPES))}")
        device = torch.device(device)
        self.num_blocks, self.num_host_blocks, self.block_size = num_blocks, num_host_blocks, block_size
        self.spare_block = num_blocks
        self.dtype, self.device = dtype, device
        self.block_bytes = block_bytes(layers, block_size, kv_heads, head_dim, dtype)
        block = block_size, kv_heads, head_dim
        pinned = device.type == "cuda" and num_host_blocks > 0
        self._check_memory()
        try:
            # Zeros, not empty: memory that is not there is missed now, and no step pays for the first touch of a page.
            self.data = torch.zeros(2, layers, num_blocks + 1, *block, dtype=dtype, device=device)
            self.host_data = torch.zeros(num_host_blocks, 2, layers, *block, dtype=dtype, pin_memory=pinned)
        except RuntimeError as error:  # fragmented, or limited otherwise than by what is free
            raise EngineError(f"kv cache: {' '.join(str(error).split())[:200]}; fewer blocks might fit") from error
        self.scales = torch.ones(2, layers, kv_heads, device=device)
        self._transfers = BlockTransfers(self.data, self.host_data)

    def k(self, layer: int) -> Tensor:
        """Keys of a layer [num_blocks + 1, block_size, kv_heads, head_dim]."""
        return self.data[0, layer]

    def v(self, layer: int) -> Tensor:
        """Values of a layer, likewise."""
        return self.data[1, layer]

    def k_scale(self, layer: int) -> Tensor:
        """fp32 [kv_heads]: a key is what an fp8 cache holds times this. Ones unless set, and unused by other dtypes."""
        return self.scales[0, layer]

    def v_scale(self, layer: int) -> Tensor:
        return self.scales[1, layer]

    def set_scales(self, layer: int, k_scale: Tensor | float, v_scale: Tensor | float) -> None:
        """Scales of an fp8 cache: one number, or one for each KV head. From a checkpoint, or `scales_from`."""
        for name, to, scale in (("k", self.k_scale(layer), k_scale), ("v", self.v_scale(layer), v_scale)):
            scale = torch.as_tensor(scale, dtype=torch.float32)
            if scale.numel() not in (1, to.numel()):
                raise EngineError(f"layer {layer}: {scale.numel()} {name} scales for {to.numel()} KV heads")
            if not (scale.isfinite() & (scale > 0)).all():
                raise EngineError(f"layer {layer}: {name} scales must be positive numbers, not {scale.flatten().tolist()}")
            to.copy_(scale.flatten())

    def apply(self, transfers: Iterable[tuple[str, int, int]]) -> None:
        """Make a step's ("out" | "in" | "copy", from block, to block), in this order, before its layers are computed."""
        self._transfers.apply(transfers)

    def synchronize(self) -> None:
        """Wait until `host_data` holds what was swapped out: for who reads it otherwise than by swapping in."""
        self._transfers.synchronize()

    def poison(self) -> None:
        """For tests: every slot is NaN until it is written."""
        for data in (self.data, self.host_data):
            if self.dtype == FP8:
                data.view(torch.uint8).fill_(0x7F)  # its only NaN but for the sign
            else:
                data.fill_(float("nan"))

    def _check_memory(self) -> None:
        """On a CPU both pools share the machine's memory; the device's pool comes first."""
        free = available_bytes(self.device)
        self._check_pool("KV", "num_gpu_blocks", self.num_blocks, 1, free, str(self.device))
        if self.device.type == "cpu":
            free -= (self.num_blocks + 1) * self.block_bytes
        else:
            free = available_bytes(torch.device("cpu"))
        self._check_pool("host", "num_cpu_blocks", self.num_host_blocks, 0, free, "cpu")

    def _check_pool(self, name: str, option: str, blocks: int, spare: int, free: int, where: str) -> None:
        need = (blocks + spare) * self.block_bytes
        if blocks and need > free:
            fits = max(free // self.block_bytes - spare, 0)
            raise EngineError(
                f"cache.{option}={blocks}: {blocks} {name} blocks of {self.block_size} tokens take {need / GIB:.2f} GiB, "
                f"but {where} has {free / GIB:.2f} GiB free; {fits} would fit"
            )


def block_bytes(layers: int, block_size: int, kv_heads: int, head_dim: int, dtype: torch.dtype) -> int:
    """Bytes of one block: K and V of all layers."""
    return 2 * layers * block_size * kv_heads * head_dim * dtype.itemsize


def available_bytes(device: torch.device) -> int:
    """Memory that can be had now. For the host Linux's estimate: free, or used by caches that can be dropped.

    Elsewhere all of the machine's memory; a limit that a container sets is not seen.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    meminfo = Path("/proc/meminfo")
    for line in meminfo.read_text().splitlines() if meminfo.exists() else ():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def scales_from(amax: Tensor) -> Tensor:
    """Scales under which values up to `amax` in magnitude just fit fp8; 1 where all values seen were 0."""
    return torch.where(amax > 0, amax.float() / FP8_MAX, 1.0)
