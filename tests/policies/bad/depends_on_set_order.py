"""A turn that goes round a set."""

from twin.policy import Policy


class DependsOnSetOrder(Policy):
    """Bad: the users' turn is the order in which a set of their names happens to be."""

    def __init__(self) -> None:
        self.users: set[str] = set()

    def on_arrival(self, request, view):
        self.users.add(request.user or "")

    def order(self, request, view):
        return list(self.users).index(request.user or "")
