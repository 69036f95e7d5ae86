"""An order by what not every request has."""

from twin.policy import Policy


class KeysDoNotCompare(Policy):
    """Bad: a request without a session has a number for a key, the others have text."""

    def order(self, request, view):
        return request.session or 0
