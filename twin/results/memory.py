"""How full the KV pool was, and how much of what it had handed out held nothing."""

import numpy as np

from twin.results.record import Record
from twin.results.timeweighted import replicas, time_mean
from twin.results.window import Window


def kv_usage(record: Record, window: Window) -> dict[str, float | None]:
    """Referenced blocks over all blocks, time-weighted over the window; the mean over the replicas.

    Blocks that only keep a cached prefix for later are not used (case met-11): `kv_resident_mean` counts both. A step
    holds what its plan took until it ends; the record says so for each row, summed over its steps.
    `kv_waste_fraction` is 1 - tokens held / slots allocated, both averaged over time (PagedAttention, 2023, figure 2).
    """
    steps = record.steps
    keys = ("kv_usage_mean", "kv_usage_peak", "kv_resident_mean", "kv_waste_fraction")
    if window.duration_s <= 0 or not len(steps["step"]):
        return dict.fromkeys(keys)
    used, cached, repeat = steps["used_blocks"], steps["cached_blocks"], steps["repeat"]
    blocks = None if record.block_steps is None else record.block_steps / repeat
    tokens = None if record.token_steps is None else record.token_steps / repeat
    peaks = used if record.peak_blocks is None else record.peak_blocks
    span = window.start_s, window.end_s
    mean, resident, held = [], [], []
    for rows in replicas(steps):
        at = rows.at
        mean.append(time_mean(rows, used[at], *span, during=None if blocks is None else blocks[at]))
        resident.append(time_mean(rows, used[at] + cached[at], *span))
        if tokens is not None:
            held.append(time_mean(rows, np.zeros(len(at)), *span, during=tokens[at]))
    slots = sum(mean) * record.block_size
    inside = steps["start_s"] + steps["duration_s"] > window.start_s
    return {
        "kv_usage_mean": float(np.mean(mean)) / record.num_blocks,
        "kv_usage_peak": float(peaks[inside].max()) / record.num_blocks if inside.any() else None,
        "kv_resident_mean": float(np.mean(resident)) / record.num_blocks,
        "kv_waste_fraction": 1.0 - sum(held) / slots if held and slots > 0 else None,
    }
