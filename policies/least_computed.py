"""Whose blocks are taken: those of the request that loses least."""

from twin.policy import Policy


class LeastComputed(Policy):
    """The running request with the fewest computed tokens gives up its blocks: `policy.victim=least_computed`.

    Idea: what is computed is what a recomputation has to do again, so the least of it is thrown away; it may take more
    victims to free as many blocks. The greedy answer to the cost of a preemption by recompute (Kwon et al., SOSP 2023,
    section 7.3, measure this cost). On a tie the last admitted goes. It needs to know nothing.
    """

    def victim(self, running, view):
        return min(enumerate(running), key=lambda entry: (entry[1].computed, -entry[0]))[1]
