"""Ageing by the wall clock."""

import time

from twin.policy import Policy


class ReadsTheClock(Policy):
    """Bad: who came later by the machine's clock goes first."""

    def order(self, request, view):
        return -time.perf_counter()
