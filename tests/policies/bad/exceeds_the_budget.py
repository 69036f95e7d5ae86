"""A chunk that is larger than what was offered."""

from twin.policy import Policy


class ExceedsTheBudget(Policy):
    """Bad: prompts are to be computed whole, whatever the step has left."""

    def chunk(self, request, offered, view):
        return request.pending
