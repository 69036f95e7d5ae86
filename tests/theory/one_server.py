"""One server of the textbooks that may change its mind after every step, written apart from the simulator.

Requests of so many tokens, one a step of `step_s` seconds; who arrives during a step waits for its end, who finds nobody
starts at once. The functions return when each request has ended, seconds. They jump from event to event, so that a
hundred thousand requests take seconds.
"""

import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import numpy as np

Rank = Callable[[int, int], Any]  # (request, tokens it has had) -> smaller goes first


def preemptive(
    arrival_s: np.ndarray,
    tokens: np.ndarray,
    step_s: float,
    rank: Rank,
    steps_ahead: Callable[[int, Any], int] | None = None,
) -> np.ndarray:
    """Whoever waits with a rank less than that of the one in service takes its place. On equal ranks by arrival, but who is
    in service stays. `steps_ahead(tokens it has had, rank of the first that waits)`: in so many steps the one in service
    has come to stand behind it; None: never."""
    arrivals, lengths = arrival_s.tolist(), tokens.tolist()
    had, finish_s = [0] * len(arrivals), [math.nan] * len(arrivals)
    waiting: list[tuple[Any, int]] = []
    served, now_s, come = -1, 0.0, 0
    while come < len(arrivals) or waiting or served >= 0:
        if served < 0 and not waiting:
            now_s = max(now_s, arrivals[come])
        while come < len(arrivals) and arrivals[come] <= now_s:
            heappush(waiting, (rank(come, 0), come))
            come += 1
        if served >= 0 and waiting and waiting[0][0] < (own := rank(served, had[served])):
            heappush(waiting, (own, served))
            served = -1
        if served < 0:
            served = heappop(waiting)[1]
        steps = lengths[served] - had[served]
        if come < len(arrivals):
            steps = min(steps, max(1, math.ceil((arrivals[come] - now_s) / step_s)))
        if steps_ahead is not None and waiting:
            steps = min(steps, max(1, steps_ahead(had[served], waiting[0][0])))
        now_s += steps * step_s
        had[served] += steps
        if had[served] == lengths[served]:
            finish_s[served] = now_s
            served = -1
    return np.array(finish_s)


def shortest_remaining(arrival_s: np.ndarray, tokens: np.ndarray, step_s: float) -> np.ndarray:
    lengths = tokens.tolist()
    return preemptive(arrival_s, tokens, step_s, lambda request, had: lengths[request] - had)


def most_urgent(arrival_s: np.ndarray, tokens: np.ndarray, step_s: float, priority: np.ndarray) -> np.ndarray:
    urgency = priority.tolist()
    return preemptive(arrival_s, tokens, step_s, lambda request, had: urgency[request])


def least_attained(arrival_s: np.ndarray, tokens: np.ndarray, step_s: float) -> np.ndarray:
    return preemptive(arrival_s, tokens, step_s, lambda request, had: had, lambda had, other: other + 1 - had)


def round_robin(arrival_s: np.ndarray, tokens: np.ndarray, step_s: float) -> np.ndarray:
    """One token each in turn; who arrives during a step stands before the one that it served."""
    arrivals, left = arrival_s.tolist(), tokens.tolist()
    finish_s = [math.nan] * len(arrivals)
    line: deque[int] = deque()
    now_s, come = 0.0, 0
    while come < len(arrivals) or line:
        if not line:
            now_s = max(now_s, arrivals[come])
            line.append(come)
            come += 1
        until_s = arrivals[come] - now_s if come < len(arrivals) else math.inf
        rounds = min(map(left.__getitem__, line)) - 1  # that are certain to change nobody
        if until_s < rounds * len(line) * step_s:
            rounds = int(until_s / (len(line) * step_s)) - 1
        if rounds > 0:
            for request in line:
                left[request] -= rounds
            now_s += rounds * len(line) * step_s
        served = line.popleft()
        now_s += step_s
        left[served] -= 1
        while come < len(arrivals) and arrivals[come] <= now_s:
            line.append(come)
            come += 1
        if left[served]:
            line.append(served)
        else:
            finish_s[served] = now_s
    return np.array(finish_s)


def feedback_queues(arrival_s: np.ndarray, tokens: np.ndarray, step_s: float, quantum: int, ratio: int) -> np.ndarray:
    """Queue p has a quantum of quantum · ratio^p tokens and is served when those above it are empty. Who has used its
    quantum up goes to the end of the next queue, who is displaced keeps its place."""
    arrivals, left = arrival_s.tolist(), tokens.tolist()
    finish_s = [math.nan] * len(arrivals)
    queues: list[deque[tuple[int, int]]] = [deque() for _ in range(60)]  # (request, what is left of its quantum)
    now_s, come, present = 0.0, 0, 0
    while come < len(arrivals) or present:
        if not present:
            now_s = max(now_s, arrivals[come])
        while come < len(arrivals) and arrivals[come] <= now_s:
            queues[0].append((come, quantum))
            come += 1
            present += 1
        level = next(level for level, queue in enumerate(queues) if queue)
        request, rest = queues[level].popleft()
        steps = min(rest, left[request])
        if come < len(arrivals):
            steps = min(steps, max(1, math.ceil((arrivals[come] - now_s) / step_s)))
        now_s += steps * step_s
        left[request] -= steps
        if not left[request]:
            finish_s[request] = now_s
            present -= 1
        elif steps < rest:
            queues[level].appendleft((request, rest - steps))
        else:
            queues[level + 1].append((request, quantum * ratio ** (level + 1)))
    return np.array(finish_s)
