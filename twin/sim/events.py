"""simpy at absolute times.

simpy's Timeout adds a delay to the present, and now + (t - now) is not always t to the last bit; fast-forward and step by
step must see the same floats, so everything here is scheduled at the time itself.
"""

from heapq import heappush
from typing import Any

import simpy
from simpy.events import NORMAL, URGENT, Event

EARLY_S = 1e-12  # an arrival is seen by a step that ends at the same time up to rounding


class At(Event):
    """Happens at an absolute time, seconds. Foreign events are URGENT: at one time they come before the replicas."""

    def __init__(self, env: simpy.Environment, time_s: float, urgent: bool = False) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        queue: list[Any] = env._queue
        heappush(queue, (max(time_s, env.now), URGENT if urgent else NORMAL, next(env._eid), self))
