"""Whose blocks are taken: those of the request that would hold them longest."""

from twin.policy import Policy


class MostRemaining(Policy):
    """The running request with the most predicted tokens to come gives up its blocks: `policy.victim=most_remaining`.

    Idea: who is nearly done soon frees its blocks anyway; who has most before it would hold them longest and need the most
    more. The victim that shortest remaining processing time asks for (Schrage, Operations Research 1968), used with
    predictions by TRAIL (Shahout et al., ICLR 2025). On a tie the last admitted goes. It needs a prediction
    of output lengths.
    """

    needs_prediction = True

    def victim(self, running, view):
        return max(enumerate(running), key=lambda entry: (entry[1].predicted_output - entry[1].generated, entry[0]))[1]
