"""A search that does not end."""

from twin.policy import Policy


class LoopsForEver(Policy):
    """Bad: it waits inside a hook for blocks that cannot become free meanwhile."""

    def admit(self, request, view):
        free, needed = view.free_blocks, 1 << 40 if view.num_running >= 2 else 0
        while free < needed:
            self.looked_at = free
        return True
