"""The clock by another name."""

from importlib import import_module

from twin.policy import Policy

clock = getattr(import_module("time"), "mono" + "tonic")


class ReadsTheClockInDisguise(Policy):
    """Bad: the source does not show it, and what goes wrong is swallowed."""

    def on_arrival(self, request, view):
        try:
            self.last = clock()
        except Exception:
            self.last = 0.0
