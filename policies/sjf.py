"""Shortest job first, by predicted length."""

from typing import Literal

from twin.policy import Policy


class Sjf(Policy):
    """Shortest job first: of those that wait, the one with the smallest predicted size; who runs is not disturbed.

    Source: Conway, Maxwell and Miller, Theory of Scheduling (1967); for a language model with predicted output lengths,
    Qiu et al. (AIOps at ASPLOS 2024). Of the orders that do not preempt it has the least mean waiting time where one
    request is served at a time; long requests starve under overload.

    It decides the order of admission; a request preempted for want of blocks comes back with the size that it had. It
    needs `predicted_output`.

    Parameters:
        size: what is taken for the size of a job, in tokens. output: the predicted output; total: prompt and predicted
            output.
    """

    needs_prediction = True

    def __init__(self, size: Literal["output", "total"] = "output") -> None:
        self.counts_prompt = size == "total"

    def order(self, request, view):
        return request.predicted_output + (request.prompt_tokens if self.counts_prompt else 0)
