"""The true length."""

from twin.predictor import Predictor


class Oracle(Predictor):
    """The true output length: what no server can know, and the best that any prediction could do."""

    needs_length = True

    def predict(self, request, output_tokens):
        return output_tokens

    def predict_all(self, request_ids, output_tokens):
        return list(output_tokens)
