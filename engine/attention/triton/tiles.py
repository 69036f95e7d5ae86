"""The sizes that the kernels are launched with: rows and keys of a tile, warps, stages, parts of a context.

None of them was measured on a GPU. They follow from the registers and the shared memory of sm_80 and sm_90 (`ahead_of_time`
says what each kernel takes: for head sizes 64, 128 and 256 nothing is spilled) and from what such kernels need: decodes many
bytes in flight, prefills large products.
`triton.autotune` is not used: it needs a GPU even under the interpreter, and tunes to whatever batch comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.attention.fp8 import FP8

MOST_SPLITS = 64
FEWEST_KEYS = 256  # of a part: below, merging costs more than it gains
PROGRAMS_PER_MULTIPROCESSOR = 2  # that are resident at a time, by the shared memory of the tiles below


@dataclass(frozen=True)
class Machine:
    """What the sizes depend on."""

    multiprocessors: int
    capability: int  # 80, 90, ...
    interpreted: bool = False

    @property
    def converts_fp8(self) -> bool:
        """Whether there are instructions for e4m3."""
        return self.capability >= 89 or self.interpreted

    @property
    def feeds_from_shared_memory(self) -> bool:
        """Whether tensor cores read their operands from shared memory (wgmma, tcgen05), which saves registers."""
        return 90 <= self.capability < 120


@dataclass(frozen=True)
class Layer:
    """What does not change between the steps of a model."""

    kv_heads: int
    group: int  # query heads of a KV head
    head_dim: int
    block_size: int
    dtype: torch.dtype  # of q and of the result
    cache_dtype: torch.dtype

    @property
    def padded_dim(self) -> int:
        """head_dim filled up to a power of two; tensor cores take no less than 16."""
        return max(16, power_of_two(self.head_dim))


@dataclass(frozen=True)
class Tiles:
    """Sizes of one launch of `paged_attention`.

    K and V can be loaded only when the table's entries are there, which are a stage of the pipeline themselves: with 5
    stages two tiles of K and V are in shared memory (one in use, one on its way), with fewer only one (wgmma: one more).
    """

    rows: int  # query heads of one KV head, times positions
    keys: int  # positions of the context in one step of the loop
    warps: int
    stages: int


def power_of_two(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << (n - 1).bit_length()


def choose_tiles(machine: Machine, layer: Layer, decode: bool) -> Tiles:
    """fp32 is multiplied without tensor cores, from registers: its tiles are small. So are the interpreter's, so that short
    contexts have several."""
    dim = layer.padded_dim
    if machine.interpreted:
        tiles = Tiles(rows=16, keys=16, warps=4, stages=1)
    elif layer.dtype == torch.float32:
        tiles = Tiles(rows=16, keys=16 if dim > 64 else 32, warps=4, stages=2)
    elif decode and layer.group <= 32:
        more_registers = dim > 128 or (dim == 128 and layer.cache_dtype == FP8)
        tiles = Tiles(rows=16, keys=32 if dim > 128 else 64, warps=8 if more_registers else 4, stages=5)
    elif dim > 128:
        tiles = Tiles(rows=64, keys=32, warps=8, stages=2)
    elif machine.feeds_from_shared_memory:
        tiles = Tiles(rows=128, keys=64, warps=8, stages=3)
    elif dim > 64:
        tiles = Tiles(rows=64, keys=32, warps=4, stages=5)
    else:
        tiles = Tiles(rows=128, keys=32, warps=8, stages=5)
    rows = max(tiles.rows, power_of_two(layer.group))  # the heads of a position stay together
    return Tiles(rows, tiles.keys, tiles.warps, tiles.stages)


def choose_splits(
    machine: Machine, query_lens: Sequence[int], contexts: Sequence[int], kv_heads: int, positions_per_tile: int
) -> int:
    """Into how many parts each context is cut, from integers of the host alone (so CUDA graphs may be captured).

    A program passes over the context of one tile of rows of one KV head. Cut so that the longest context's part is a fair
    share of all work,

        longest / splits = kv_heads * sum_i tiles_i * context_i / (multiprocessors * PROGRAMS_PER_MULTIPROCESSOR)

    rounded down (a second wave of few programs would cost more than a little imbalance), with at least FEWEST_KEYS keys a
    part and at most MOST_SPLITS parts. Where contexts are upper bounds, as while a CUDA graph is captured, parts are as many
    as those need; with shorter contexts on replay parts are shorter, and some are empty.
    """
    longest = max(contexts, default=0)
    work = kv_heads * sum(-(-rows // positions_per_tile) * n for rows, n in zip(query_lens, contexts, strict=True))
    if not work:
        return 1
    fair = longest * machine.multiprocessors * PROGRAMS_PER_MULTIPROCESSOR // work
    return max(1, min(fair, longest // FEWEST_KEYS, MOST_SPLITS))
