"""Whose blocks are taken: those of the least urgent request."""

from twin.policy import Policy


class LowestPriority(Policy):
    """The running request of the largest (priority, arrival) gives up its blocks: `policy.victim=lowest_priority`.

    Idea: the least urgent gives way, among equals who came last. It is vLLM V1's rule under `--scheduling-policy priority`
    (0.32) to the letter: on a tie of both the first of the running list. It needs the requests' `priority` (smaller is
    more urgent).
    """

    def victim(self, running, view):
        return max(running, key=lambda request: (request.priority, request.arrival_s))
