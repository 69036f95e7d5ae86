"""No predictions."""

from twin.predictor import Predictor


class NoPrediction(Predictor):
    """No predictions: policies learn nothing of output lengths."""

    predicts = False

    def predict(self, request, output_tokens):
        return None
