"""Of several points: which no other beats, and where a curve has its knee."""

from collections.abc import Sequence

import numpy as np


def pareto(costs: Sequence[float], gains: Sequence[float]) -> list[int]:
    """The points that no other beats: none has at most their cost and at least their gain, and either strictly.

    In the order of their cost; points with nan are none. Equal points are all in it.
    """
    known = [place for place in range(len(costs)) if not (np.isnan(costs[place]) or np.isnan(gains[place]))]
    front = [
        place
        for place in known
        if not any(
            costs[other] <= costs[place] and gains[other] >= gains[place]
            and (costs[other] < costs[place] or gains[other] > gains[place])
            for other in known
        )
    ]  # fmt: skip
    return sorted(front, key=lambda place: (costs[place], gains[place]))


def knee(throughputs: Sequence[float], latencies_s: Sequence[float]) -> int | None:
    """The load with the greatest power, throughput / latency (Kleinrock, Power and deterministic rules of thumb for
    probabilistic problems in computer communications, ICC 1979): beyond it latency grows faster than throughput.

    For M/M/1 it lies at half of the capacity. None of fewer than three points, and where the greatest is the first or the
    last of them: then the knee lies outside what was measured.
    """
    powers = [
        throughput / latency if latency > 0 and throughput == throughput else -np.inf
        for throughput, latency in zip(throughputs, latencies_s, strict=True)
    ]
    if len(powers) < 3:
        return None
    best = int(np.argmax(powers))
    return best if 0 < best < len(powers) - 1 and np.isfinite(powers[best]) else None
