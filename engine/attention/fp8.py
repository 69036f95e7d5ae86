"""How a value lies in the cache: cast to the cache's dtype; fp8 is divided by a scale of its KV head before.

e4m3fn has 3 bits of mantissa, +-448 as its largest value, no infinity and one NaN (0x7f; Micikevicius et al., "FP8 formats
for deep learning", 2022). What a cast makes of a value beyond +-448 differs between versions of PyTorch, NaN or the largest
value; hence the clamp.
"""

from __future__ import annotations

import torch
from torch import Tensor

FP8 = torch.float8_e4m3fn
FP8_MAX = 448.0


def to_cache(rows: Tensor, dtype: torch.dtype, scale: Tensor) -> Tensor:
    """Rows [..., kv_heads, dim] as a cache of `dtype` stores them; `scale`, fp32 [kv_heads], counts for fp8 alone."""
    if dtype != FP8:
        return rows.to(dtype)
    return (rows.float() / scale[:, None]).clamp(-FP8_MAX, FP8_MAX).to(FP8)


def from_cache(stored: Tensor, scale: Tensor) -> Tensor:
    """The values [..., kv_heads, dim], in fp32, that a cache stands for."""
    return stored.float() * scale[:, None] if stored.dtype == FP8 else stored.float()
