"""A limit on each user's requests a minute, the fairness of today's services; else first come, first served."""

from collections import deque
from math import inf
from typing import Literal

from twin.policy import ADMIT, LATER, NEVER, Policy

WINDOW_S = 60.0


class Rpm(Policy):
    """First come, first served, but no more than so many requests a user in any minute.

    Source: the rate limit of public services, as a baseline in Sheng et al., "Fairness in Serving Large Language Models",
    OSDI 2024 (RPM). It is not work-conserving: requests over the limit wait, or are lost, though nobody else be there; and
    requests are counted, not tokens.

    The window slides: a request is let through when fewer than `limit` of its user were let through in the 60 s before. Who
    is let through stands in the queue as if it arrived then, so that nobody waits behind requests over a limit. It decides
    the order and the admission, and needs to know the users.

    Parameters:
        limit: requests of a user in a minute.
        over: what becomes of a request over the limit.
            wait: it is let through as soon as the limit allows.
            reject: it is refused for good (the baseline of the paper); a refused one does not count.
    """

    def __init__(self, limit: int = 20, over: Literal["wait", "reject"] = "wait") -> None:
        if limit < 1:
            raise ValueError(f"limit must be 1 or more requests a minute, not {limit}")
        self.limit, self.waits = limit, over == "wait"
        self.let_through: dict[str | None, deque[float]] = {}  # seconds, of a user's last `limit` ones
        self.from_s: dict[object, float] = {}  # request -> seconds; -inf: to be refused

    def order(self, request, view):
        return self.from_s.get(request, request.arrival_s)  # a further sample has no turn of its own

    def admit(self, request, view):
        from_s = self.order(request, view)
        if from_s == -inf:
            del self.from_s[request]
            return NEVER
        return ADMIT if from_s <= view.now else LATER

    def steady_until(self, view):
        head = view.head
        from_s = inf if head is None else self.order(head, view)
        return from_s if from_s > view.now else inf

    def on_arrival(self, request, view):
        times = self.let_through.setdefault(request.user, deque(maxlen=self.limit))
        from_s = request.arrival_s
        if len(times) == self.limit:
            from_s = max(from_s, times[0] + WINDOW_S)
        if from_s > request.arrival_s and not self.waits:
            from_s = -inf
        else:
            times.append(from_s)
        self.from_s[request] = from_s

    def on_finish(self, request, view):
        self.from_s.pop(request, None)
