"""The end of vLLM's steps, and of requests, as a policy is told of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.vllm._options import Twin
from engine.vllm._request import Record
from engine.vllm._state import State


class Landing:
    """Steps in flight of one scheduler of vLLM's. Those who end with a step are told of when all of it has been counted."""

    def __init__(self, scheduler: Any, twin: Twin, state: State) -> None:
        self.scheduler, self.twin, self.state = scheduler, twin, state
        self.policy, self.view = twin.policy, state.view
        self.yielding: dict[int, list[Record]] = {}  # id of vLLM's plan, while it is in flight -> who yields
        self.landing_now = False
        self.ended_now: list[Record] = []

    def launched(self, planned: Any) -> None:
        """Who yields a token in this step, for `on_step`."""
        if self.policy.on_step is None or not planned.num_scheduled_tokens:
            return
        requests = self.scheduler.requests
        members = [requests[name] for name in planned.num_scheduled_tokens]
        self.yielding[id(planned)] = [request.twin_record for request in members if not request.is_prefill_chunk]

    @contextmanager
    def of(self, planned: Any) -> Iterator[None]:
        """vLLM counts the tokens of a step that has ended."""
        state = self.state
        state.now = max(state.now, state.clock())
        if self.policy.on_step is not None and planned.num_scheduled_tokens:
            self._tell_of_step(self.yielding.pop(id(planned)))
        self.landing_now = True
        try:
            yield
        finally:
            self.landing_now = False
        ended, self.ended_now = self.ended_now, []
        for record in ended:
            self._tell_of_end(record)

    def _tell_of_step(self, yielding: list[Record]) -> None:
        by_user: dict[str | None, int] = {}
        for record in yielding:
            by_user[record.user] = by_user.get(record.user, 0) + 1
        alive = [record for record in yielding if record.state in ("waiting", "running")]
        for record in alive:
            record.coming = 1
        assert self.policy.on_step is not None
        self.policy.on_step(self.view, Yields(by_user, alive), 1)
        for record in alive:
            record.coming = 0

    def ended(self, request: Any) -> None:
        record: Record = request.twin_record
        if self.landing_now:
            self.ended_now.append(record)
        else:
            self._tell_of_end(record)

    def _tell_of_end(self, record: Record) -> None:
        if record.rejected or not record.known:
            return
        if self.policy.on_finish is not None:
            self.policy.on_finish(record.view, self.view)
        predictor = self.twin.predictor
        if predictor is not None and predictor.on_finish is not None and record.state == "finished":
            predictor.on_finish(record.view, record.generated)


class Yields:
    """Who got a token in the step just done, for `Policy.on_step`."""

    __slots__ = ("_yielding", "by_user")

    def __init__(self, by_user: dict[str | None, int], yielding: list[Record]) -> None:
        self.by_user, self._yielding = by_user, yielding

    @property
    def requests(self) -> list[Any]:
        return [record.view for record in self._yielding]
