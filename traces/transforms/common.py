"""What several transforms need."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from traces.trace import ABSOLUTE, Trace


def require_arrivals(trace: Trace, option: str) -> None:
    """Raises ValueError for a closed loop, whose arrivals are not known before the run."""
    if trace.closed is not None:
        raise ValueError(f"{option} does not go with closed(...), whose arrivals are not known before the run")


def moved(trace: Trace, arrival_s: np.ndarray) -> Trace:
    """The trace with these arrivals; deadlines and aborts keep their distance to them."""
    absolute = {
        name: getattr(trace, name) + (arrival_s - trace.arrival_s) for name in ABSOLUTE if getattr(trace, name) is not None
    }
    return replace(trace, arrival_s=arrival_s, **absolute)


def from_first_arrival(trace: Trace) -> Trace:
    """The same requests on a clock that starts with the first arrival."""
    first_s = float(trace.arrival_s[0])
    if first_s == 0 or trace.closed is not None:
        return trace
    absolute = {name: getattr(trace, name) - first_s for name in ABSOLUTE if getattr(trace, name) is not None}
    return replace(trace, arrival_s=trace.arrival_s - first_s, **absolute)


def kept(trace: Trace, rows: np.ndarray, option: str) -> Trace:
    """The requests of these rows, the first at 0 s; raises ValueError when there are none."""
    if not len(rows):
        raise ValueError(f"{option} leaves no request of trace {trace.name} ({len(trace):,} requests)")
    if len(rows) == len(trace):
        return from_first_arrival(trace)
    return from_first_arrival(trace.take(rows))


def name_keys(names: Sequence[str]) -> np.ndarray:
    """A number of 64 bits for each name, equal for equal names: what a `Stream` draws for, uint64."""
    keys: dict[str, int] = {}
    for name in names:
        if name not in keys:
            keys[name] = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
    return np.fromiter((keys[name] for name in names), np.uint64, len(names))
