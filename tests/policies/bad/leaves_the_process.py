"""A policy that ends more than itself."""

import os

from twin.policy import Policy


class LeavesTheProcess(Policy):
    """Bad: at the fifth arrival the process is gone."""

    def __init__(self) -> None:
        self.arrivals = 0

    def on_arrival(self, request, view):
        self.arrivals += 1
        if self.arrivals == 5:
            os._exit(0)
