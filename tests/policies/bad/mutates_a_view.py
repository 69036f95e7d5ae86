"""Notes on requests, written onto what is the core's."""

from twin.policy import Policy


class MutatesAView(Policy):
    """Bad: requests are made more urgent by writing their priority."""

    def on_arrival(self, request, view):
        request.priority = 0
