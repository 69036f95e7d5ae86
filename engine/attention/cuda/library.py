"""A library of kernels, loaded with ctypes and called with tensors."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_float, c_int, c_longlong, c_void_p
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.attention.cuda.build import DTYPE_CODES
from engine.errors import EngineError, StepFailure
from twin.core.errors import DeviceError

OF_ONE_LAUNCH = (2, 9, 701)  # cudaErrorMemoryAllocation, InvalidConfiguration, LaunchOutOfResources: the device is well


class WriteArguments(ctypes.Structure):
    """As in write_kv.cuh."""

    _fields_ = [
        ("k", c_void_p), ("v", c_void_p), ("k_cache", c_void_p), ("v_cache", c_void_p), ("slots", c_void_p),
        ("k_scale", c_void_p), ("v_scale", c_void_p), ("stream", c_void_p), ("k_stride", c_longlong),
        ("v_stride", c_longlong), ("dtype", c_int), ("tokens", c_int), ("kv_heads", c_int),
    ]  # fmt: skip


class DecodeArguments(ctypes.Structure):
    """As in decode.cuh."""

    _fields_ = [
        ("q", c_void_p), ("k_cache", c_void_p), ("v_cache", c_void_p), ("block_tables", c_void_p),
        ("context_lens", c_void_p), ("k_scale", c_void_p), ("v_scale", c_void_p), ("out", c_void_p), ("partial", c_void_p),
        ("stream", c_void_p), ("q_stride", c_longlong), ("scale", c_float), ("dtype", c_int), ("sequences", c_int),
        ("kv_heads", c_int), ("group", c_int), ("block_shift", c_int), ("table_stride", c_int), ("splits", c_int),
    ]  # fmt: skip


class Kernels:
    """The kernels for one head dim and one dtype of the cache.

    They run on the current stream of the device of their tensors, wait for nothing and allocate nothing, so a CUDA graph may
    capture them.
    """

    def __init__(self, library: Path, head_dim: int, cache_dtype: torch.dtype) -> None:
        self.head_dim, self.cache_dtype = head_dim, cache_dtype
        try:
            self._library = ctypes.CDLL(str(library))
        except OSError as error:
            raise EngineError(f"attention=cuda cannot load {library} ({error}): remove it, it will be built anew") from error
        self._library.write_kv.argtypes = [ctypes.POINTER(WriteArguments)]
        self._library.paged_decode.argtypes = [ctypes.POINTER(DecodeArguments)]
        self._library.error_text.argtypes, self._library.error_text.restype = [c_int], c_char_p

    def write(
        self, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor, k_scale: Tensor, v_scale: Tensor
    ) -> None:
        """See AttentionBackend.write."""
        self._check_caches(k_cache, v_cache)
        kv_heads = k_cache.shape[2]
        assert k.shape == v.shape == (len(slots), kv_heads, self.head_dim) and k.dtype == v.dtype
        _check("slots", slots, torch.int64)
        k, v = _rows(k), _rows(v)
        self._call("write_kv", WriteArguments(
            k=k.data_ptr(), v=v.data_ptr(), k_cache=k_cache.data_ptr(), v_cache=v_cache.data_ptr(), slots=slots.data_ptr(),
            **_scales(k_scale, v_scale, kv_heads), stream=_stream(k.device), k_stride=k.stride(0), v_stride=v.stride(0),
            dtype=DTYPE_CODES[k.dtype], tokens=len(slots), kv_heads=kv_heads,
        ), k.device)  # fmt: skip

    def decode(
        self, q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, context_lens: Tensor, splits: int,
        partial: Tensor, scale: float, k_scale: Tensor, v_scale: Tensor, out: Tensor,
    ) -> None:  # fmt: skip
        """Attention of one row a sequence, q [sequences, heads, dim], into `out`, likewise and contiguous.

        Contexts are cut into at most `splits` spans; `partial` fp32 [>= partial_size(...)] holds their results meanwhile.
        """
        self._check_caches(k_cache, v_cache)
        (sequences, heads, dim), (_, block_size, kv_heads, _) = q.shape, k_cache.shape
        assert heads % kv_heads == 0 and dim == self.head_dim and 1 <= splits <= 65535 and sequences <= 65535
        assert out.shape == q.shape and out.dtype == q.dtype and out.is_contiguous()
        assert block_size & (block_size - 1) == 0, "a block's size is a power of two"
        assert splits == 1 or partial.numel() >= partial_size(sequences * heads * splits, dim)
        _check("partial", partial, torch.float32)
        _check("context_lens", context_lens, torch.int32)
        assert block_tables.dtype == torch.int32 and block_tables.stride(1) == 1
        assert len(context_lens) == len(block_tables) == sequences
        q = _rows(q)
        self._call("paged_decode", DecodeArguments(
            q=q.data_ptr(), k_cache=k_cache.data_ptr(), v_cache=v_cache.data_ptr(), block_tables=block_tables.data_ptr(),
            context_lens=context_lens.data_ptr(), **_scales(k_scale, v_scale, kv_heads), out=out.data_ptr(),
            partial=partial.data_ptr(), stream=_stream(q.device), q_stride=q.stride(0), scale=scale,
            dtype=DTYPE_CODES[q.dtype], sequences=sequences, kv_heads=kv_heads, group=heads // kv_heads,
            block_shift=block_size.bit_length() - 1, table_stride=block_tables.stride(0), splits=splits,
        ), q.device)  # fmt: skip

    def _check_caches(self, k_cache: Tensor, v_cache: Tensor) -> None:
        for cache in (k_cache, v_cache):
            assert cache.shape == k_cache.shape and cache.shape[3] == self.head_dim and cache.dtype == self.cache_dtype
            assert cache.is_contiguous() and cache.data_ptr() % 16 == 0
            assert cache.shape[0] * cache.shape[1] < 2**31, "slots are counted in 32 bits"

    def _call(self, function: str, arguments: ctypes.Structure, device: torch.device) -> None:
        entry = getattr(self._library, function)
        if device.type == "cuda":
            with torch.cuda.device(device):
                error = entry(arguments)
        else:
            error = entry(arguments)
        if error:
            words = f"attention=cuda: {function}: {self._library.error_text(error).decode()}"
            raise (StepFailure if error in OF_ONE_LAUNCH else DeviceError)(words)


def partial_size(rows: int, head_dim: int) -> int:
    """Numbers of fp32 that hold the results of `rows` = sequences * heads * splits: o, m and l of each."""
    return rows * (head_dim + 2)


def _rows(x: Tensor) -> Tensor:
    """[tokens, heads, dim] as the kernels read it: a row without gaps, rows at any distance, aligned to 16 bytes."""
    heads_and_dims_lie_close = x.stride(2) == 1 and x.stride(1) == x.shape[2]
    aligned = x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0
    return x if heads_and_dims_lie_close and aligned else x.clone(memory_format=torch.contiguous_format)


def _scales(k_scale: Tensor, v_scale: Tensor, kv_heads: int) -> dict[str, Any]:
    for name, scale in (("k_scale", k_scale), ("v_scale", v_scale)):
        _check(name, scale, torch.float32)
        assert scale.shape == (kv_heads,)
    return {"k_scale": k_scale.data_ptr(), "v_scale": v_scale.data_ptr()}


def _check(name: str, x: Tensor, dtype: torch.dtype) -> None:
    assert x.dtype == dtype and x.is_contiguous(), f"{name}: {x.dtype}, strides {x.stride()}"


def _stream(device: torch.device) -> int | None:
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
