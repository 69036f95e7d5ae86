"""The same for all."""

from twin.predictor import Predictor


class Constant(Predictor):
    """The same length for every request: what a policy makes of predictions that tell nothing."""

    def __init__(self, tokens: float = 200.0) -> None:
        """Parameters:

        tokens: the prediction, at least 1.
        """
        if not 1 <= tokens < float("inf"):
            raise ValueError(f"tokens must be at least 1, not {tokens:g}")
        self.tokens = tokens

    def predict(self, request, output_tokens):
        return self.tokens
