"""simpy at absolute times.

simpy's Timeout adds a delay to the present, and now + (t - now) is not always t to the last bit; fast-forward and step by
step must see the same floats, so everything here is scheduled at the time itself.
"""

from collections.abc import Callable
from heapq import heappush
from typing import Any

import simpy
from simpy.events import NORMAL, URGENT, Event

EARLY_S = 1e-12  # an arrival is seen by a step that ends at the same time up to rounding


class At(Event):
    """Happens at an absolute time, seconds. Foreign events are URGENT: at one time they come before the replicas."""

    def __init__(self, env: simpy.Environment, time_s: float, urgent: bool = False) -> None:
        self.env = env
        self.callbacks = []
        self._ok, self._value, self._defused = True, None, False
        now = env._now
        heappush(env._queue, (time_s if time_s > now else now, URGENT if urgent else NORMAL, next(env._eid), self))


def call_at(env: simpy.Environment, time_s: float, call: Callable[[Any], None]) -> None:
    """Have `call` called with the event at that time, before whatever replicas do then."""
    At(env, time_s, urgent=True).callbacks.append(call)
