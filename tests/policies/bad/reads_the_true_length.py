"""Shortest job first, by looking behind the view."""

from operator import attrgetter

from twin.policy import Policy

length = attrgetter("_" + "request.stop_after")


class ReadsTheTrueLength(Policy):
    """Bad: it orders by the output length that nobody can know, and the source does not show it."""

    def order(self, request, view):
        return length(request)
