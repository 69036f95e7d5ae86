"""A predictor that does what is asked of it wrongly; the tests name its lines."""

from twin.predictor import Predictor


class Awkward(Predictor):
    """Predicts 5, except for request 2."""

    def __init__(self, at_fault: str, beforehand: bool = False) -> None:
        self.at_fault, self.needs_length = at_fault, beforehand

    def predict_all(self, request_ids, output_tokens):
        if self.at_fault == "few":
            return [5.0] * (len(request_ids) - 1)
        return [self._of(name) for name in request_ids]

    def predict(self, request, output_tokens):
        return self._of(request.id)

    def _of(self, name):
        if name == "2" and self.at_fault == "nan":
            return float("nan")
        if name == "2" and self.at_fault in ("text", "nothing"):
            return {"text": "long", "nothing": None}[self.at_fault]
        return 5.0 if name != "2" else self._fails()

    def _fails(self):
        return 1 / 0 if self.at_fault == "raise" else 5.0

    def on_finish(self, request, generated_tokens):
        if self.at_fault == "end":
            missing: dict[str, int] = {}
            self.learnt = missing[request.id]
