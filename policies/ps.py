"""Round robin: processor sharing in slices."""

from twin.policy import Policy, RequestView

ENDED = ("finished", "rejected", "aborted")


class Ps(Policy):
    """Round robin: each gets a quantum of tokens in its turn and then goes to the end of the line, as newcomers do.

    Source: Kleinrock (Queueing Systems II, 1976, section 4.4): as the quantum goes to 0 this becomes processor sharing,
    under which a request's expected time in the system is proportional to its size.

    A place in the line is the step in which it was taken: a newcomer's that of its arrival, and who has used up a quantum
    takes a new one at that moment, whether it goes on running or not. Who waits displaces a running request with a later
    place, that is one that has used up its quantum since. So newcomers come before nobody who waits, and between two turns
    of a request those that stood in line before it have one turn each: nobody starves. Who loses its blocks before its
    quantum is used up keeps its place, and what is left of the quantum.

    It decides the order of admission, whom one that waits displaces, and whose blocks are taken when they run out: of the
    one with the latest place. It needs to know nothing.

    Parameters:
        quantum_tokens: generated tokens that make a quantum.
    """

    preempts = True

    def __init__(self, quantum_tokens: int = 64) -> None:
        if quantum_tokens < 1:
            raise ValueError(f"quantum_tokens must be 1 or more tokens, not {quantum_tokens}")
        self.quantum = quantum_tokens
        self.steps = 0  # that have ended
        # the place taken last; for one that runs also its tokens when it came in. Without an entry: a sample just forked
        self.places: dict[RequestView, tuple[int, int | None]] = {}
        self.sweep_at = 64  # so many entries

    def order(self, request, view):
        place, tokens_before = self.places.get(request, (0, 0))
        if tokens_before is None or (generated := request.generated) // self.quantum == tokens_before // self.quantum:
            return place
        return 2 * (self.steps - generated % self.quantum) + 1  # odd: after who arrived in the same step

    def on_arrival(self, request, view):
        if len(self.places) >= self.sweep_at:  # who is rejected at the door leaves without a word
            self.places = {other: place for other, place in self.places.items() if other.state not in ENDED}
            self.sweep_at = 2 * len(self.places) + 64
        self.places[request] = (2 * self.steps, None)

    def on_admit(self, request, view):
        self.places[request] = (self.order(request, view), request.generated)

    def on_preempt(self, request, mode, view):
        self.places[request] = (self.order(request, view), None)

    def on_finish(self, request, view):
        self.places.pop(request, None)

    def on_step(self, view, batch, k):
        self.steps += k

    def victim(self, running, view):
        return max(running, key=lambda request: (self.order(request, view), request.arrival_s))

    def key_steps(self, request, key, view):
        """Until its quantum is used up: the place that it takes then is behind all others."""
        return self.quantum - request.generated % self.quantum
