"""Highest response ratio next."""

from math import inf
from typing import Literal, NamedTuple

from twin.policy import Policy, RequestView

MARGIN = 1e-12  # of a height: far more than rounding can do to it


class Hrrn(Policy):
    """Highest response ratio next: short requests first, but waiting makes up for size, so that nobody starves.

    Source: Brinch Hansen, "Short-term scheduling in multiprogramming systems" (SOSP 1971). Of those that wait comes in the
    one with the largest

        (waited + size) / size = 1 + waited / size        waited: seconds since its arrival, size: predicted tokens

    of which the part that differs, (now - arrival) / size, is a line over time for each request: what orders them changes
    by time alone. Which line is highest, and until when, a kinetic tournament says (`_Tournament`). On equal ratios the
    earlier arrival comes first, then the smaller id. Who runs is not disturbed; a request that lost its blocks counts from
    its arrival.

    It decides the order of admission. It needs `predicted_output`.

    Parameters:
        size: what is taken for the size of a job, in tokens. output: the predicted output; total: prompt and predicted
            output.
    """

    needs_prediction = True

    def __init__(self, size: Literal["output", "total"] = "output") -> None:
        self.counts_prompt = size == "total"
        self.line = _Tournament()

    def pick(self, view):
        first = self.line.first(view.now)
        while first is not None and first.state != "waiting":  # it was rejected
            self.line.remove(first, view.now)
            first = self.line.first(view.now)
        return first

    def on_wait(self, request, view):
        size = request.predicted_output + (request.prompt_tokens if self.counts_prompt else 0)
        self.line.add(_Entry(request.arrival_s, size, request.id, request), view.now)

    def on_admit(self, request, view):
        self.line.remove(request, view.now)

    def on_finish(self, request, view):
        self.line.remove(request, view.now)

    def steady_until(self, view):
        """While no seat is free, or somebody is to come back from the host first, it does not matter who is next."""
        if view.num_running >= view.limits.max_num_seqs or view.num_swapped:
            return inf
        self.line.first(view.now)
        return self.line.steady_until


class _Entry(NamedTuple):
    """A line over time, (now - arrival) / size."""

    arrival_s: float
    size: float
    id: str
    request: RequestView

    def height(self, now: float) -> float:
        return (now - self.arrival_s) / self.size


class _Tournament:
    """Kinetic tournament (Basch, Guibas and Hershberger, SODA 1997): the highest of many lines, while time goes on.

    A binary tree with the entries as leaves; each node has the winner of its two children, and a time before which no match
    below it would end otherwise. When that time has come, only the matches that are due are played again: O(log n) for an
    entry that comes or goes, and amortised O(log n) matches for each over the whole run. Matches are decided by the heights
    at that moment and by nothing else, so the winner is the one that a look at all entries would find.
    """

    def __init__(self) -> None:
        self.leaves = 1
        self.winners: list[_Entry | None] = [None, None]  # node 1 is the root, node i has the children 2i and 2i + 1
        self.until = [inf, inf]
        self.places: dict[RequestView, int] = {}  # their leaves
        self.free = [1]

    @property
    def steady_until(self) -> float:
        """No match ends otherwise before this time."""
        return self.until[1]

    def first(self, now: float) -> RequestView | None:
        self._replay(1, now)
        winner = self.winners[1]
        return None if winner is None else winner.request

    def add(self, entry: _Entry, now: float) -> None:
        if entry.request in self.places:
            return
        if not self.free:
            self._grow(now)
        leaf = self.free.pop()
        self.places[entry.request] = leaf
        self._set(leaf, entry, now)

    def remove(self, request: RequestView, now: float) -> None:
        leaf = self.places.pop(request, None)
        if leaf is not None:
            self.free.append(leaf)
            self._set(leaf, None, now)

    def _set(self, node: int, entry: _Entry | None, now: float) -> None:
        self.winners[node] = entry
        while node > 1:
            node //= 2
            self._play(node, now)

    def _grow(self, now: float) -> None:
        """Twice as many leaves: the old ones, in their order, and as many free ones behind them."""
        old = self.leaves
        entries = self.winners[old:]
        self.leaves = 2 * old
        self.winners = [None] * self.leaves + entries + [None] * old
        self.until = [inf] * (2 * self.leaves)
        self.places = {request: leaf + old for request, leaf in self.places.items()}
        self.free = list(range(2 * self.leaves - 1, self.leaves + old - 1, -1))
        for node in range(self.leaves - 1, 0, -1):
            self._play(node, now)

    def _replay(self, node: int, now: float) -> None:
        if self.until[node] <= now:
            self._replay(2 * node, now)
            self._replay(2 * node + 1, now)
            self._play(node, now)

    def _play(self, node: int, now: float) -> None:
        one, other = self.winners[2 * node], self.winners[2 * node + 1]
        until = min(self.until[2 * node], self.until[2 * node + 1])
        if one is not None and other is not None:
            if _rank(other, now) < _rank(one, now):
                one, other = other, one
            until = min(until, _overtaken_at(one, other, now))
        self.winners[node] = one if one is not None else other
        self.until[node] = until


def _rank(entry: _Entry, now: float) -> tuple[float, float, str]:
    return -entry.height(now), entry.arrival_s, entry.id


def _overtaken_at(winner: _Entry, loser: _Entry, now: float) -> float:
    """A time before which the loser stays behind, also as computed in floating point: earlier than the crossing by MARGIN.

    The gap between them closes by 1 / loser.size - 1 / winner.size a second: not at all if the loser is as large or larger.
    """
    if loser.size >= winner.size:
        return inf
    gap = winner.height(now) * (1 - MARGIN) - loser.height(now)
    closing = 1 / loser.size - (1 - MARGIN) / winner.size
    return now + max(0.0, gap) / closing
