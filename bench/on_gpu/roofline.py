"""Bytes that have to be read, and how near a measured time comes to reading them as fast as the device copies."""

from __future__ import annotations

from twin.memory import ModelShape


def attention_bytes(batch: int, context: int, kv_heads: int, head_dim: int, element_bytes: int) -> int:
    """K and V of one layer: 2 * batch * context * kv_heads * head_dim elements."""
    return 2 * batch * context * kv_heads * head_dim * element_bytes


def weight_bytes_read(shape: ModelShape, element_bytes: int) -> int:
    """Of a decode step: all parameters once, but of an embedding that is not the head too only a few rows."""
    looked_up = 0 if shape.tied else shape.vocab * shape.hidden
    return (shape.parameters - looked_up) * element_bytes


def kv_bytes_read(shape: ModelShape, batch: int, context: int, element_bytes: int) -> int:
    """Of a decode step, all layers."""
    return shape.layers * attention_bytes(batch, context, shape.kv_heads, shape.head_dim, element_bytes)


def copy_rate(copied_bytes: int, seconds: float) -> float:
    """Bytes a second of a copy, which reads `copied_bytes` and writes as many."""
    return 2 * copied_bytes / seconds


def share(needed_bytes: int, bytes_per_s: float, seconds: float) -> float:
    """Least time over the time it took: 1 is a kernel that is as fast as the memory allows."""
    return needed_bytes / bytes_per_s / seconds
