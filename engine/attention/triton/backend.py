"""The attention back end `triton`: checks, sizes, launches."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.attention.base import AttentionBatch
from engine.attention.fp8 import FP8
from engine.attention.triton.tiles import Layer, Machine, choose_splits, choose_tiles
from engine.errors import EngineError

try:
    import triton
except ImportError as error:
    raise EngineError(f"attention=triton needs the package triton, which cannot be imported here: {error}") from error

from engine.attention.triton import kernels
from engine.attention.triton.variants import COMPUTE_DTYPES, attention_variant, merge_variant, write_variant

INTERPRETED = not isinstance(kernels.paged_attention, triton.runtime.JITFunction)  # TRITON_INTERPRET=1 at the first import
LARGEST_HEAD_DIM = 256
LOG2_E = math.log2(math.e)


class TritonAttention:
    """Paged attention by `kernels`, on CUDA devices; on the CPU under Triton's interpreter, for tests.

    Decodes and the other sequences are two launches of the same kernel, with tiles of their own.
    """

    name = "triton"

    def __init__(self, device: torch.device, head_dim: int | None = None, machine: Machine | None = None) -> None:
        """EngineError where the kernels cannot run on `device`, or take no heads of this size (None: not asked).

        `machine`: what sizes are chosen for, where that is not the device as it is (tests).
        """
        if head_dim is not None and (head_dim % 8 or not 8 <= head_dim <= LARGEST_HEAD_DIM):
            raise EngineError(
                f"attention=triton takes head sizes that are multiples of 8 up to {LARGEST_HEAD_DIM}, not {head_dim}: "
                "use attention=torch"
            )
        found = find_machine(device)
        self.machine = machine or found

    def write(
        self, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, k_scale: Tensor, v_scale: Tensor
    ) -> None:
        assert k.stride(2) == v.stride(2) == 1
        layer = _layer(k, k_cache, v_cache)
        if layer.cache_dtype == FP8:
            k_cache, v_cache = k_cache.view(torch.uint8), v_cache.view(torch.uint8)
        kernels.write_kv[(k.shape[0],)](
            k, v, k_cache, v_cache, batch.slots, k_scale, v_scale,
            k.stride(0), k.stride(1), v.stride(0), v.stride(1), **write_variant(layer),
        )  # fmt: skip

    def attend(
        self, q: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, scale: float, k_scale: Tensor,
        v_scale: Tensor,
    ) -> Tensor:  # fmt: skip
        layer = _layer(q, k_cache, v_cache)
        assert q.stride(2) == batch.block_tables.stride(1) == 1
        if layer.cache_dtype == FP8 and not self.machine.converts_fp8:
            k_cache, v_cache = k_cache.view(torch.uint8), v_cache.view(torch.uint8)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        for first, end in ((0, batch.num_decodes), (batch.num_decodes, batch.num_sequences)):
            if first < end:
                self._attend(q, k_cache, v_cache, out, batch, scale, k_scale, v_scale, layer, first, end)
        return out

    def _attend(
        self, q: Tensor, k_cache: Tensor, v_cache: Tensor, out: Tensor, batch: AttentionBatch, scale: float,
        k_scale: Tensor, v_scale: Tensor, layer: Layer, first: int, end: int,
    ) -> None:  # fmt: skip
        """The sequences first .. end - 1: the decodes, or all others (then there are `first` rows before them)."""
        query_lens, contexts = batch.query_lens[first:end], batch.contexts[first:end]
        tiles = choose_tiles(self.machine, layer, decode=end <= batch.num_decodes)
        positions = tiles.rows // layer.group
        splits = choose_splits(self.machine, query_lens, contexts, layer.kv_heads, positions)
        part_out = part_lse = out  # not used where nothing is split
        rows, heads = sum(query_lens), q.shape[1]
        if splits > 1:
            # Not filled: all of part_lse gets written, and `merge` reads of part_out only what was.
            part_out = torch.empty((rows, heads, splits, layer.head_dim), dtype=torch.float32, device=q.device)
            part_lse = torch.empty((rows, heads, splits), dtype=torch.float32, device=q.device)
        grid = ((end - first) * splits, layer.kv_heads, -(-max(query_lens) // positions))
        kernels.paged_attention[grid](
            q, k_cache, v_cache, out, part_out, part_lse, batch.block_tables, batch.query_start, batch.context_lens,
            k_scale, v_scale, scale * LOG2_E, q.stride(0), q.stride(1), batch.block_tables.stride(0), first, splits,
            **attention_variant(layer, self.machine, tiles, splits > 1),
        )  # fmt: skip
        if splits > 1:
            kernels.merge[(rows * heads,)](out[first:], part_out, part_lse, splits, **merge_variant(layer))


def find_machine(device: torch.device) -> Machine:
    """What sizes are chosen for on this device; EngineError where the kernels cannot run."""
    if INTERPRETED:
        return Machine(multiprocessors=1, capability=90, interpreted=True)
    if device.type != "cuda":
        raise EngineError(
            f"attention=triton needs a CUDA device, not {device} (there it runs only under Triton's interpreter, with "
            "TRITON_INTERPRET=1 in the environment: for tests): use attention=torch"
        )
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        raise EngineError(
            f"attention=triton needs compute capability 8.0 or later, and {device} has {major}.{minor}: use attention=torch"
        )
    return Machine(torch.cuda.get_device_properties(device).multi_processor_count, 10 * major + minor)


def _layer(rows: Tensor, k_cache: Tensor, v_cache: Tensor) -> Layer:
    """`rows` [tokens, heads or kv_heads, dim]."""
    _, heads, head_dim = rows.shape
    _, block_size, kv_heads, cache_dim = k_cache.shape
    assert k_cache.is_contiguous() and v_cache.is_contiguous() and k_cache.shape == v_cache.shape
    assert rows.dtype in COMPUTE_DTYPES and k_cache.dtype in (*COMPUTE_DTYPES, FP8)
    assert cache_dim == head_dim <= LARGEST_HEAD_DIM and heads % kv_heads == 0 and k_cache.dtype == v_cache.dtype
    return Layer(kv_heads, heads // kv_heads, head_dim, block_size, rows.dtype, k_cache.dtype)
