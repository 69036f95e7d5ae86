"""Whose blocks are taken: those of the request that arrived last."""

from twin.policy import Policy


class LatestArrival(Policy):
    """The running request that arrived last gives up its blocks: `policy.victim=latest_arrival`.

    Idea: first come, first served among victims too, whatever the order of admission was (under another order than that
    of arrival, `last` may take the oldest request again and again). The rule of vLLM V0, whose running queue was sorted
    by arrival before its end was preempted (Kwon et al., SOSP 2023, section 4.5: the latest request is preempted first).
    On a tie the last admitted goes. It needs to know nothing.
    """

    def victim(self, running, view):
        return max(enumerate(running), key=lambda entry: (entry[1].arrival_s, entry[0]))[1]
