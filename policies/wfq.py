"""Weighted fair queueing: each request gets the virtual time at which it would end if the users shared the server."""

from twin.policy import Policy, RequestView, user_weights


class Wfq(Policy):
    """The smallest virtual finish time first: start of a user's next request is the finish of the one before.

    Source: Demers, Keshav, Shenker, "Analysis and Simulation of a Fair Queueing Algorithm", SIGCOMM 1989; self-clocked, as
    Golestani, "A Self-Clocked Fair Queueing Scheme for Broadband Applications", INFOCOM 1994: the virtual time is the
    finish tag of the request that was admitted last. At its arrival a request gets

        finish = max(virtual time, finish of the user's request before) + cost / weight of the user
        cost   = prompt_weight · prompt + output_weight · output

    and keeps it. What it costs must be known by then: the output is the predicted one, without a predictor the request's
    own limit, and without that `assumed_output_tokens`; a wrong guess is never put right (`vtc` charges what came). It
    decides the order alone, and needs to know the users.

    Parameters:
        prompt_weight: cost of a prompt token.
        output_weight: cost of an output token.
        weights: shares of users as user:weight, comma between them ("alice:2,bob:0.5"); who is not named has 1.
        assumed_output_tokens: output of a request of which nothing is known, tokens.
    """

    def __init__(
        self,
        prompt_weight: float = 1.0,
        output_weight: float = 2.0,
        weights: str = "",
        assumed_output_tokens: int = 256,
    ) -> None:
        for name, value in (("prompt_weight", prompt_weight), ("output_weight", output_weight)):
            if value and not 1e-6 <= value <= 1e6:  # beyond, counters are no numbers any more
                raise ValueError(f"{name} must be 0 or more, and if more 1e-6 to 1e6, not {value}")
        if assumed_output_tokens < 1:
            raise ValueError(f"assumed_output_tokens must be 1 or more tokens, not {assumed_output_tokens}")
        self.prompt_weight, self.output_weight = prompt_weight, output_weight
        self.assumed_output_tokens = assumed_output_tokens
        self.weights = user_weights(weights)
        self.virtual_time = 0.0
        self.last_finish: dict[str | None, float] = {}  # of a user's requests so far
        self.finish: dict[RequestView, float] = {}

    def order(self, request, view):
        return self.finish.get(request, 0.0)  # a further sample that was preempted: its family has come in before

    def on_arrival(self, request, view):
        user = request.user
        start = max(self.virtual_time, self.last_finish.get(user, 0.0))
        self.finish[request] = self.last_finish[user] = start + self.cost(request) / self.weights.get(user, 1.0)

    def cost(self, request):
        output = request.predicted_output
        if output is None:
            output = request.max_tokens
        if output is None:
            output = self.assumed_output_tokens
        return self.prompt_weight * request.prompt_tokens + self.output_weight * output

    def on_admit(self, request, view):
        self.virtual_time = max(self.virtual_time, self.finish.get(request, 0.0))

    def on_finish(self, request, view):
        self.finish.pop(request, None)
