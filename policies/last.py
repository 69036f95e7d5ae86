"""Whose blocks are taken: those of the last admitted."""

from twin.policy import Policy


class Last(Policy):
    """The last admitted gives up its blocks: `policy.victim=last`.

    Idea: who came last has waited least and computed least, so the oldest are never set back and somebody always gets to
    the end. It is vLLM V1's rule under `--scheduling-policy fcfs` (0.32), recomputation or swapping of the latest as in
    PagedAttention (Kwon et al., SOSP 2023, section 4.5), and the default here; as a part it puts this rule in place of a
    policy's own. It needs to know nothing.
    """

    def victim(self, running, view):
        return running[-1]
