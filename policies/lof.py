"""Longest output first."""

from twin.policy import Policy


class Lof(Policy):
    """The longest output first: `lof` of SGLang (Zheng et al., NeurIPS 2024; `--schedule-policy lof`).

    Idea: for a batch of requests that are all there at the start, the long ones begin first and the short ones fill the
    gaps, so that the last to end ends earlier (longest processing time first, Graham 1969). The opposite of what is good
    for mean latency.

    It decides the order of admission. The length is the request's own `max_tokens`, as in SGLang; where it has none, its
    `predicted_output`; without a predictor, all that the context length leaves to it. It needs to know nothing else.
    """

    def order(self, request, view):
        if request.max_tokens is not None:
            return -request.max_tokens
        if request.predicted_output is not None:
            return -request.predicted_output
        return request.prompt_tokens - view.limits.max_model_len
