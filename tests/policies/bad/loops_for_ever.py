"""A search that does not end."""

from twin.policy import Policy


class LoopsForEver(Policy):
    """Bad: it waits inside a hook for blocks that cannot become free meanwhile."""

    def admit(self, request, view):
        while view.num_running >= 2:
            self.looked_at = view.free_blocks
        return True
