"""How full the KV pool was, and how much of what it had handed out held nothing."""

import numpy as np

from twin.results.columns import Table
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
            slots, tokens = used[at] * record.block_size, record.held_tokens[at]
            full = tokens_held = None
            if while_running is not None:
                full = while_running * record.block_size
                tokens_held = np.clip(_before_releases(steps, at, tokens), tokens, full)
            held.append(time_mean(rows, tokens, *span, during=tokens_held, single=single[at]))
            allocated.append(time_mean(rows, slots, *span, during=full, single=single[at]))
    handed_out = sum(allocated)
    inside = steps["start_s"] + steps["duration_s"] > window.start_s
    return {
        "kv_usage_mean": float(np.mean(mean)) / record.num_blocks,
        "kv_usage_peak": float(during[inside].max()) / record.num_blocks if inside.any() else None,
        "kv_resident_mean": float(np.mean(resident)) / record.num_blocks,
        "kv_waste_fraction": 1.0 - float(sum(held)) / handed_out if handed_out > 0 else None,
    }


def _before_releases(steps: Table, at: np.ndarray, held_tokens: np.ndarray) -> np.ndarray:
    """Tokens held in a row's last step: what the row before left, and what this one computed."""
    computed = (steps["prefill_tokens"][at] + steps["decode_tokens"][at]) * steps["repeat"][at]
    return np.concatenate(([0], held_tokens[:-1])) + computed
