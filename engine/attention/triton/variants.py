"""Which variant of each kernel a launch needs: its compile-time parameters, warps and stages.

`backend` launches with them, `ahead_of_time` compiles them.
"""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl

from engine.attention.fp8 import FP8
from engine.attention.triton.tiles import MOST_SPLITS, Layer, Machine, Tiles, power_of_two

COMPUTE_DTYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


def write_variant(layer: Layer) -> dict[str, Any]:
    return {
        "KV_HEADS": layer.kv_heads,
        "HEAD_DIM": layer.head_dim,
        "HEADS_PADDED": power_of_two(layer.kv_heads),
        "DIM": layer.padded_dim,
        "FP8": layer.cache_dtype == FP8,
        "num_warps": 4,
        "enable_fp_fusion": True,
    }


def attention_variant(layer: Layer, machine: Machine, tiles: Tiles, split: bool) -> dict[str, Any]:
    return {
        "KV_HEADS": layer.kv_heads,
        "GROUP": layer.group,
        "HEAD_DIM": layer.head_dim,
        "DIM": layer.padded_dim,
        "BLOCK_SIZE": layer.block_size,
        "ROWS": tiles.rows,
        "KEYS": tiles.keys,
        "SPLIT": split,
        "FP8": layer.cache_dtype == FP8,
        "COMPUTE": tl.float32 if machine.interpreted else COMPUTE_DTYPES[layer.dtype],
        "num_warps": tiles.warps,
        "num_stages": tiles.stages,
        "enable_fp_fusion": True,
    }


def merge_variant(layer: Layer) -> dict[str, Any]:
    return {
        "HEAD_DIM": layer.head_dim,
        "DIM": layer.padded_dim,
        "MOST_SPLITS": MOST_SPLITS,
        "num_warps": 4,
        "enable_fp_fusion": True,
    }
