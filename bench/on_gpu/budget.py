"""Who may take how much of the run's time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

Clock = Callable[[], float]


class Budget:
    """Seconds for a whole run, dealt out section by section."""

    def __init__(self, total_s: float, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.ends_s = clock() + total_s

    def left_s(self) -> float:
        return max(0.0, self.ends_s - self.clock())

    def allotted_s(self, shares: Sequence[float]) -> float:
        """For the first of the sections that are still to come, by their shares.

        What those before it have left over or overdrawn is spread over all that follow.
        """
        return self.left_s() * shares[0] / sum(shares)


class Deadline:
    """Of one section, in the process that measures it."""

    def __init__(self, seconds: float, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.ends_s = clock() + seconds

    def left_s(self) -> float:
        return self.ends_s - self.clock()

    @property
    def is_over(self) -> bool:
        return self.left_s() <= 0
