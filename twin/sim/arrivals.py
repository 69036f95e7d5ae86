"""Where requests come from, each at its time.

Open loop: the times of the trace, known beforehand; `next_s` says when the next one comes, and whoever looks there calls
`deliver`, so that an arrival costs no event. What a run itself brings about (the next of a closed loop, an abort) is an
event of simpy's, before which all earlier arrivals are delivered. Closed loop: `users` requests are in the system at once,
and when one ends the next comes after a think time; sessions likewise, turn by turn. Requests are made when they arrive and
forgotten when they end: a run needs memory for what is in the system, not for what is in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Protocol

import numpy as np
import simpy

from twin.core.request import Pause, Request
from twin.sim.events import EARLY_S, call_at


class Workload(Protocol):
    """What the simulator needs of a trace (`traces.Trace` is one): columns of one length, None where absent."""

    @property
    def name(self) -> str: ...
    @property
    def arrival_s(self) -> Any: ...
    @property
    def prompt_tokens(self) -> Any: ...
    @property
    def output_tokens(self) -> Any: ...
    @property
    def max_tokens(self) -> Any: ...
    @property
    def user(self) -> Any: ...
    @property
    def session(self) -> Any: ...
    @property
    def think_s(self) -> Any: ...
    @property
    def priority(self) -> Any: ...
    @property
    def deadline_s(self) -> Any: ...
    @property
    def n(self) -> Any: ...
    @property
    def abort_s(self) -> Any: ...
    @property
    def pauses(self) -> Any: ...
    def pauses_of(self, row: int) -> tuple[Pause, ...]: ...
    @property
    def prefix(self) -> Any: ...
    @property
    def closed(self) -> Any: ...
    def __len__(self) -> int: ...
    def ids(self) -> list[str]: ...


class RequestFactory:
    """Makes the request of a row. Content that nobody else has gets no keys: the pool names it itself."""

    def __init__(self, trace: Workload, block_size: int, caches: bool) -> None:
        self.trace, self.block_size = trace, block_size
        self.ids = trace.ids()
        self.prompt_tokens, self.output_tokens = _cells(trace.prompt_tokens), _cells(trace.output_tokens)
        self.max_tokens = _cells(trace.max_tokens)
        self.priority, self.samples = _cells(trace.priority), _cells(trace.n)
        self.deadline_s = _cells(trace.deadline_s)
        self.recorded_s = _cells(trace.arrival_s)
        self.prefix = trace.prefix if caches else None
        self.shareable = None if self.prefix is None else _cells(self.prefix.shareable_tokens())

    def make(self, row: int, arrival_s: float) -> Request:
        trace = self.trace
        keys: Any = ()
        if self.shareable is not None and self.prefix is not None and self.shareable[row] >= self.block_size:
            keys = self.prefix.block_keys(row, self.block_size, self.shareable[row] // self.block_size)
        max_tokens = None if self.max_tokens is None or self.max_tokens[row] < 0 else self.max_tokens[row]
        deadline_s = None if self.deadline_s is None else self.deadline_s[row]
        if deadline_s is not None and arrival_s != (recorded_s := self.recorded_s[row]) and recorded_s == recorded_s:
            deadline_s += arrival_s - recorded_s  # a closed session: it keeps its distance from the arrival
        pauses = () if trace.pauses is None else trace.pauses_of(row)
        return Request(
            self.ids[row], arrival_s, self.prompt_tokens[row], self.output_tokens[row], max_tokens,
            index=row,
            user=None if trace.user is None else trace.user[row],
            session=None if trace.session is None else trace.session[row],
            priority=0 if self.priority is None else self.priority[row],
            deadline_s=None if deadline_s != deadline_s else deadline_s,
            samples=1 if self.samples is None else self.samples[row],
            block_keys=keys,
            pauses=pauses,
        )  # fmt: skip


class Arrivals:
    """Delivers, and knows what follows when a request ends."""

    def __init__(
        self, env: simpy.Environment, trace: Workload, factory: RequestFactory, receive: Callable[[Request], None],
        closed_sessions: bool = False,
    ) -> None:  # fmt: skip
        self.env, self.trace, self.factory, self.receive = env, trace, factory, receive
        self.arrival_s = _cells(trace.arrival_s)
        self.to_come = len(trace)
        self.abort_s = _cells(trace.abort_s)
        self.next_row = 0  # closed loop: the next of the trace
        self.next_turn: dict[int, int] = {}  # closed sessions: row -> row of the next turn
        self.on_abort: Callable[[Request], None] = lambda request: None
        first: Sequence[int] = range(len(trace))
        if trace.closed is not None:
            self.next_row = min(trace.closed.users, len(trace))
            first = range(self.next_row)
        elif closed_sessions:
            self.next_turn = _turns(trace)
            later = set(self.next_turn.values())
            first = [row for row in range(len(trace)) if row not in later]
        self.rows = iter(first)
        self.coming = next(self.rows, None)
        self.next_s = self._due_s()  # when the next arrival of the trace is seen, seconds; inf: none is to come

    def _due_s(self) -> float:
        return inf if self.coming is None else self.arrival_s[self.coming] - EARLY_S

    def deliver(self, until_s: float) -> None:
        """Hand over whoever is due by then."""
        while self.next_s <= until_s:
            row = self.coming
            assert row is not None
            self.coming = next(self.rows, None)
            self.next_s = self._due_s()
            self._hand_over(row, self.arrival_s[row], until_s)

    def _call_at(self, time_s: float, call: Callable[[], None]) -> None:
        """An event of the run's own: those of the trace that are due by then come before it."""

        def happen(event: Any) -> None:
            self.deliver(self.env.now)
            call()

        call_at(self.env, time_s, happen)

    def _come_later(self, row: int, time_s: float) -> None:
        self._call_at(time_s - EARLY_S, lambda: self._hand_over(row, time_s, time_s))

    def _hand_over(self, row: int, arrival_s: float, seen_s: float) -> None:
        self.to_come -= 1
        request = self.factory.make(row, arrival_s)
        if self.abort_s is not None and self.abort_s[row] == self.abort_s[row]:
            self._abort_at(request, self.abort_s[row], seen_s)
        self.receive(request)

    def _abort_at(self, request: Request, time_s: float, seen_s: float) -> None:
        """Its arrival is seen at `seen_s`: an abort before that is seen with it."""
        if time_s <= seen_s:
            self.on_abort(request)
        else:
            self._call_at(time_s, lambda: self.on_abort(request))

    def after(self, row: int, time_s: float) -> None:
        """The request of that row has ended: in a closed loop another follows."""
        if self.trace.closed is not None:
            if self.next_row < len(self.trace):
                self._come_later(self.next_row, time_s + self.trace.closed.think_s)
                self.next_row += 1
        elif row in self.next_turn:
            follower = self.next_turn[row]
            think_s = 0.0 if self.trace.think_s is None else float(self.trace.think_s[follower])
            self._come_later(follower, time_s + think_s)


def _turns(trace: Workload) -> dict[int, int]:
    """Row of a turn -> row of the next turn of its session, in order of arrival."""
    if trace.session is None:
        raise ValueError(f"simulate.closed_sessions=true needs sessions, and trace {trace.name} has none (column session)")
    last: dict[str, int] = {}
    following: dict[int, int] = {}
    for row, session in enumerate(trace.session):
        if session:
            if session in last:
                following[last[session]] = row
            last[session] = row
    return following


def _cells(column: Any) -> Any:
    """The column as Python's own numbers, each made when it is asked for: lists of them take 40 bytes a cell."""
    return None if column is None else np.ascontiguousarray(column).data
