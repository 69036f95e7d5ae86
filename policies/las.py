"""Least attained service first."""

from twin.policy import Policy


class Las(Policy):
    """Who has had least comes first, preemptive: short requests are done before anybody knows that they are short.

    Source: foreground-background processor sharing, Kleinrock (Queueing Systems II, 1976, section 4.6); LAS in Nuyens and
    Wierman (Performance Evaluation 2008). Best of the orders that do not know sizes where these have a decreasing hazard
    rate; for sizes that vary little it is worse than order of arrival.

    The service attained is counted in whole quanta, attained // quantum_tokens: a running request is displaced by one that
    has had fewer quanta (of equally many nobody is), so a larger quantum means fewer preemptions. A newcomer has had nothing
    and comes before all that have had one.

    It decides the order of admission, whom one that waits displaces, and whose blocks are taken when they run out: of the
    one that has had most. It needs to know nothing.

    Parameters:
        quantum_tokens: tokens of service that make a quantum.
        count_prompt: the prompt counts as service too, once it is computed.
    """

    preempts = True

    def __init__(self, quantum_tokens: int = 64, count_prompt: bool = False) -> None:
        if quantum_tokens < 1:
            raise ValueError(f"quantum_tokens must be 1 or more tokens, not {quantum_tokens}")
        self.quantum, self.count_prompt = quantum_tokens, count_prompt

    def order(self, request, view):
        return self.attained(request) // self.quantum

    def attained(self, request):
        generated = request.generated
        return generated + request.prompt_tokens if self.count_prompt and generated else generated

    def victim(self, running, view):
        return max(running, key=lambda request: (self.order(request, view), request.arrival_s))

    def key_steps(self, request, key, view):
        """Until it has had a quantum more."""
        attained = self.attained(request)
        if self.count_prompt and not attained:  # its prompt may be complete with the next step
            return 1
        return (key + 1) * self.quantum - attained
