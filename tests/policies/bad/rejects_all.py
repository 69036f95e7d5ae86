"""Admission that turns away whom it could serve."""

from twin.policy import NEVER, Policy


class RejectsAll(Policy):
    """Bad: the answer to whoever waits is NEVER."""

    def admit(self, request, view):
        return NEVER
