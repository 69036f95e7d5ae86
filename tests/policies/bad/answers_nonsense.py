"""A victim that is none."""

from twin.policy import Policy


class AnswersNonsense(Policy):
    """Bad: the victim is the request that waits."""

    def victim(self, running, view):
        return view.head
