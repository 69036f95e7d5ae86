"""Service-level objectives: what share of all requests met them, and at what rate."""

from collections.abc import Mapping

import numpy as np

from twin.results.columns import FINISHED
from twin.results.record import Record, samples

OBJECTIVES = ("ttft_s", "tpot_s", "e2e_s", "queue_s", "normalized_latency_s")


def normalized_latency_s(record: Record) -> np.ndarray:
    """End-to-end latency over output length, seconds a token (Orca, 2022; PagedAttention, 2023); nan: not finished."""
    length = record.requests["generated_tokens"] / samples(record.requests)
    e2e_s = record.requests["e2e_s"]
    return np.divide(e2e_s, length, out=np.full(len(e2e_s), np.nan), where=length > 0)


def given(slo: Mapping[str, float | None] | None) -> dict[str, float]:
    """The objectives that are set. Raises ValueError for an unknown one or a limit that is not positive."""
    limits = {name: limit for name, limit in (slo or {}).items() if limit is not None}
    for name, limit in limits.items():
        if name not in OBJECTIVES:
            raise ValueError(f"slo.{name}: no such objective of a request (there are {', '.join(OBJECTIVES)})")
        if not limit > 0:
            raise ValueError(f"slo.{name}={limit}: a limit must be positive")
    return limits


def met(record: Record, slo: Mapping[str, float | None]) -> np.ndarray:
    """Which requests met every objective: bool, a row of requests. Only finished ones can.

    A request of one token has no time per output token, and meets any objective on it.
    """
    good = record.requests["status"] == FINISHED
    for name, limit in given(slo).items():
        values = normalized_latency_s(record) if name == "normalized_latency_s" else record.requests[name]
        good &= ~(values > limit)  # nan of a finished request: not defined, hence not violated
    return good
