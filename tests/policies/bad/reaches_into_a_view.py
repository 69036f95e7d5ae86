"""Shortest job first, by looking behind the view."""

from twin.policy import Policy


class ReachesIntoAView(Policy):
    """Bad: it orders by the output length that nobody can know."""

    def order(self, request, view):
        return request._request.stop_after
