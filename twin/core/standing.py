"""Who runs, in the order of a preemptive policy, kept from plan to plan (policies with `key_steps`).

`key_steps` says for how many tokens of its own a running request keeps its key, so nobody need be asked before. Here stand
the lazy decoders, in a sorted line; a calendar says in which step whose key may change. The few that run otherwise (prompts,
who has just come in, whose last token is in flight, beams) are *loose*: they are asked whenever it matters.

An entry of the line that is not its request's any more is dead; it is passed over, and dropped when the dead are the most.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from twin.core.errors import PolicyError
from twin.core.ordered import is_less, key_of
from twin.core.request import Request

if TYPE_CHECKING:
    from twin.core.state import State

EVER = 1 << 60  # steps


class Ranked(NamedTuple):
    """A running request's place. The largest gives way first; on a tie of key and arrival who was admitted first."""

    key: Any
    arrival_s: float
    seniority: int  # minus the number of its admission
    request: Request
    until: int = 0  # the key stands before this step of the decoders' clock has landed


def ranked(state: State, request: Request) -> Ranked:
    """Its place, asked now."""
    return Ranked(key_of(state, request), request.arrival_s, -request.admission, request)


def do_not_compare(error: Exception) -> PolicyError:
    return PolicyError(f"order() returned keys of running requests that do not compare ({error})")


class Standing:
    """The lazy decoders of one replica, the first in order first. `renew` before anything else is asked in a plan."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.entries: dict[Request, Ranked] = {}
        self.line: list[Ranked] = []  # sorted
        self.calendar: dict[int, list[Ranked]] = {}  # step that lands -> whose keys may change with it
        self.renewed = 0  # when that step had landed
        self.new: list[Request] = []  # who has become a lazy decoder, or has another key
        state.decoders.newcomers = self.new

    def renew(self) -> None:
        """Ask those for their keys whose keys may have changed."""
        if len(self.line) > 2 * self.state.decoders.count + 64:
            self.line = [entry for entry in self.line if self._lives(entry)]
            self.entries = {entry.request: entry for entry in self.line}
        landed = self.state.decoders.landed
        for step in range(self.renewed + 1, landed + 1):
            self.new += [entry.request for entry in self.calendar.pop(step, ()) if self._lives(entry)]
        self.renewed = landed
        for request in self.new:
            if request.base is not None:
                self._place(request)
        self.new.clear()

    def _place(self, request: Request) -> None:
        key = key_of(self.state, request)
        steps = self._steps(request, key)
        until = self.state.decoders.landed + steps
        self.entries[request] = entry = Ranked(key, request.arrival_s, -request.admission, request, until)
        try:
            insort(self.line, entry)
        except (TypeError, ValueError) as error:  # ValueError: the truth of an array
            raise do_not_compare(error) from error
        if steps < EVER:
            self.calendar.setdefault(until, []).append(entry)

    def _steps(self, request: Request, key: Any) -> int:
        """Before so many steps the request does not come after this key."""
        assert self.state.policy.key_steps is not None
        steps: Any = self.state.policy.key_steps(request.view, key, self.state.view)
        if not isinstance(steps, int):
            raise PolicyError(f"key_steps() must return a number of steps, not {steps!r}")
        return max(1, steps)

    def _lives(self, entry: Ranked) -> bool:
        request = entry.request
        return request.base is not None and self.entries.get(request) is entry

    # --- what a plan asks

    def loose(self) -> list[Request]:
        """Who runs and has no entry."""
        state = self.state
        just_in = takewhile(lambda request: request.base is None, reversed(state.running))
        return list(dict.fromkeys((*state.prefills, *state.ending, *just_in)))

    def last_first(self) -> Iterator[Ranked]:
        """The lazy decoders, the last in order first."""
        line = self.line
        while line and not self._lives(line[-1]):
            line.pop()
        return filter(self._lives, reversed(line))

    # --- how long a plan stands

    def steady_steps(self) -> int:
        """Before so many steps nobody who runs comes to stand behind who is next in line, or somebody ends before that."""
        state = self.state
        self.renew()
        steps = state.decoders.next_day() - state.decoders.launched if state.decoders.count else EVER
        for head in (state.waiting.head(), state.swapped.first()):
            if head is not None:
                steps = self._steps_before(key_of(state, head), steps)
        return steps

    def _steps_before(self, key: Any, steps: int) -> int:
        """The same for this key, `steps` at most."""
        landed = self.renewed
        for request in self.loose():
            if not is_less(key, key_of(self.state, request)):
                steps = min(steps, self._steps(request, key))
        coming = range(landed + 1, landed + steps) if steps < len(self.calendar) else sorted(self.calendar)
        for step in coming:
            if step >= landed + steps:
                break
            for entry in self.calendar.get(step, ()):
                if self._lives(entry) and not is_less(key, entry.key):
                    steps = min(steps, self._steps(entry.request, key))
        return steps
