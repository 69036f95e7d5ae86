"""Policies that use what the shipped ones use seldom: queues of their own, keys that change, kept blocks, moves ahead."""

from collections import deque

from twin.policy import Policy


class LastComeFirst(Policy):
    """A queue of its own: a stack."""

    def __init__(self) -> None:
        self.stack = []

    def on_wait(self, request, view):
        self.stack.append(request)

    def pick(self, view):
        while self.stack and self.stack[-1].state != "waiting":
            self.stack.pop()
        return self.stack[-1] if self.stack else None


class Promoted(Policy):
    """Longest prompt last, but who has waited 3.5 seconds comes before all: a key that time alone changes."""

    after_s = 3.5

    def __init__(self) -> None:
        self.since = deque()
        self.promoted = {}

    def order(self, request, view):
        return 0 if request in self.promoted else request.prompt_tokens

    def on_wait(self, request, view):
        self.promoted.pop(request, None)
        self.since.append((view.now + self.after_s, request))

    def on_plan(self, view):
        while self.since and self.since[0][0] <= view.now:
            request = self.since.popleft()[1]
            if request.state == "waiting":
                self.promoted[request] = None
                view.reorder(request)

    def steady_until(self, view):
        return self.since[0][0] if self.since else float("inf")


class LeastAttained(Policy):
    """Whoever has the fewest quanta of 3 tokens goes first; the others keep their blocks."""

    preempts = True

    def order(self, request, view):
        return request.generated // 3

    def mode(self, request, view):
        return "keep"

    def steady_steps(self, view):
        """Until somebody who runs comes to stand behind one who does not."""
        first = min((self.order(request, view) for request in (*view.waiting, *view.swapped)), default=0)
        return min((3 * (first + 1) - request.generated for request in view.running), default=0)


class MovesAhead(LeastAttained):
    """The same, and the last kept one leaves the device early; the first that is away comes back early."""

    def background(self, view):
        moves = []
        kept = [request for request in view.swapped if not request.host_blocks]
        away = [request for request in view.swapped if request.host_blocks]
        if kept and view.free_blocks * 2 < view.limits.num_blocks:
            moves.append((kept[-1], "out"))
        elif away and view.free_blocks * 2 > view.limits.num_blocks:
            moves.append((away[0], "in"))
        return moves


HOOKS = (LastComeFirst, Promoted, LeastAttained, MovesAhead)
