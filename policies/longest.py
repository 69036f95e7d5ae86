"""Whose blocks are taken: those of the longest context."""

from twin.policy import Policy


class Longest(Policy):
    """The running request with the most computed tokens gives up its blocks: `policy.victim=longest`.

    Idea: one preemption frees as much as a preemption can, so few are needed; the price is the most work computed twice.
    It is what an operating system does that is out of memory (Linux ends the process that holds most), a baseline for the
    others. On a tie the last admitted goes. It needs to know nothing.
    """

    def victim(self, running, view):
        return max(enumerate(running), key=lambda entry: (entry[1].computed, entry[0]))[1]
