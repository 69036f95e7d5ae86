"""Whose blocks are taken: those of the request that has put out least, as in SGLang's retraction."""

from twin.policy import Policy


class FewestOutputs(Policy):
    """The running request with the fewest tokens put out gives up its blocks: `policy.victim=fewest_outputs`.

    Idea: among those who decode, who has put out least loses least of what must be computed one token at a time, and among
    equals a long prompt frees most. It is the rule of SGLang's `retract_decode` (Zheng et al., NeurIPS 2024; version 0.4):
    requests are sorted by (outputs so far, minus the prompt's length) and retracted from the front. On a tie of both the
    last admitted goes. It needs to know nothing.
    """

    def victim(self, running, view):
        return min(enumerate(running), key=lambda entry: (entry[1].generated, -entry[1].prompt_tokens, -entry[0]))[1]
