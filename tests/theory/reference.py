"""A server of the textbooks, in jumps from event to event, written apart from the simulator: a run must equal it exactly.

Every request in service gets one token a step; a step of B requests takes base_s + per_seq_s * B seconds; who arrives
during a step waits for its end, who finds nobody starts at once; `seats` at most are served together. One seat is M/G/1 if
arrivals are Poisson, seats and per_seq_s = 0 are M/G/c, no bound on seats is processor sharing. A million requests take
seconds, so that means over them are known far better than those of a run of the simulator.
"""

import math
from heapq import heappop, heappush

import numpy as np


def serve(
    arrival_s: np.ndarray,
    tokens: np.ndarray,
    base_s: float,
    per_seq_s: float = 0.0,
    seats: int = 1 << 30,
    priority: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """When each request starts its first and ends its last step, seconds. Smaller priorities first, then arrival."""
    arrivals, lengths = arrival_s.tolist(), tokens.tolist()
    urgency = [0] * len(arrivals) if priority is None else priority.tolist()
    start_s, finish_s = [math.nan] * len(arrivals), [math.nan] * len(arrivals)
    waiting: list[tuple[int, int]] = []
    served: list[tuple[int, int]] = []  # (number of its last step, request)
    step, now_s, come = 0, 0.0, 0
    while come < len(arrivals) or waiting or served:
        if not waiting and not served:
            now_s = max(now_s, arrivals[come])
        while come < len(arrivals) and arrivals[come] <= now_s:
            heappush(waiting, (urgency[come], come))
            come += 1
        while waiting and len(served) < seats:
            request = heappop(waiting)[1]
            start_s[request] = now_s
            heappush(served, (step + lengths[request], request))
        step_s = base_s + per_seq_s * len(served)
        steps = served[0][0] - step
        if come < len(arrivals) and len(served) < seats:  # with a full house arrivals can be taken in later
            steps = min(steps, max(1, math.ceil((arrivals[come] - now_s) / step_s)))
        step += steps
        now_s += steps * step_s
        while served and served[0][0] == step:
            finish_s[heappop(served)[1]] = now_s
    return np.array(start_s), np.array(finish_s)
