"""Speculative shortest job first: by class of predicted length."""

from math import ceil

from twin.policy import Policy


class Ssjf(Policy):
    """The class of the shortest predicted outputs first, order of arrival inside a class; who runs is not disturbed.

    Source: SSJF, "Efficient Interactive LLM Serving with Proxy Model-based Sequence Length Prediction" (Qiu et al., AIOps
    at ASPLOS 2024), with a proxy model that says a class of lengths rather than a number (with a number: `sjf`). Classes end
    at `first_class_tokens` times 1, 2, 4, 8, ...: a prediction that is right within its class orders as well as a perfect
    one, and inside a class nobody is overtaken.

    It decides the order of admission. It needs `predicted_output`. Long requests starve under overload.

    Parameters:
        first_class_tokens: predicted output tokens up to which a request is of the first class; each further class is
            twice as wide as all before it have come to.
    """

    needs_prediction = True

    def __init__(self, first_class_tokens: int = 64) -> None:
        if first_class_tokens < 1:
            raise ValueError(f"first_class_tokens must be 1 or more tokens, not {first_class_tokens}")
        self.first_class_tokens = first_class_tokens

    def order(self, request, view):
        last_token = ceil(request.predicted_output) - 1  # counted from 0
        return (last_token // self.first_class_tokens).bit_length()
