"""A mistake that shows after a thousand plans."""

from twin.policy import Policy


class RaisesLate(Policy):
    """Bad: a table of a thousand entries, one a plan."""

    def __init__(self) -> None:
        self.table = [0] * 1000
        self.plans = 0

    def on_plan(self, view):
        self.table[self.plans] = view.num_running
        self.plans += 1
