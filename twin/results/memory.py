"""How full the KV pool was, and how much of what it had handed out held nothing."""

import numpy as np

from twin.results.record import Record
from twin.results.timeweighted import replicas, time_mean
from twin.results.window import Window


def kv_usage(record: Record, window: Window) -> dict[str, float | None]:
    """Referenced blocks over all blocks, time-weighted over the window; the mean over the replicas.

    Blocks that only keep a cached prefix for later are not used (case met-11): `kv_resident_mean` counts both. A step
    that ends a request gives back its blocks: where the record says what was used *during* a row's last step, that
    counts, and the peak is of that; else usage goes linearly from row end to row end.
    `kv_waste_fraction` is 1 - tokens held / slots allocated, both averaged over time (PagedAttention, 2023, figure 2).
    """
    steps = record.steps
    keys = ("kv_usage_mean", "kv_usage_peak", "kv_resident_mean", "kv_waste_fraction")
    if window.duration_s <= 0 or not len(steps["step"]):
        return dict.fromkeys(keys)
    used = steps["used_blocks"].astype(np.float64)
    during = used if record.during_blocks is None else np.maximum(record.during_blocks, used)
    single = steps["repeat"] == 1
    mean, resident, held, allocated = [], [], [], []
    for rows in replicas(steps):
        at, span = rows.at, (window.start_s, window.end_s)
        while_running = None if record.during_blocks is None else during[at]
        mean.append(time_mean(rows, used[at], *span, during=while_running, single=single[at]))
        resident.append(time_mean(rows, used[at] + steps["cached_blocks"][at], *span))
        if record.held_tokens is not None:
            held.append(time_mean(rows, record.held_tokens[at], *span))
            allocated.append(time_mean(rows, used[at] * record.block_size, *span))
    slots = sum(allocated)
    inside = steps["start_s"] + steps["duration_s"] > window.start_s
    return {
        "kv_usage_mean": float(np.mean(mean)) / record.num_blocks,
        "kv_usage_peak": float(during[inside].max()) / record.num_blocks if inside.any() else None,
        "kv_resident_mean": float(np.mean(resident)) / record.num_blocks,
        "kv_waste_fraction": 1.0 - float(sum(held)) / slots if slots > 0 else None,
    }
