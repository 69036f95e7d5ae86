"""vLLM's waiting queue with the order of a policy: one of the core's own (`twin.core.waiting`) behind vLLM's interface.

vLLM asks whether anybody waits, peeks at the head, and pops it: because it comes in, or to set it aside (it is passed over
in this step) and put it back in front at the end. Who waits is in one of these places:

    queue      in the policy's order
    aside      popped, not come in: vLLM passes it over in this step
    refused    it never had a chance; vLLM ends it with an error when the next step has been counted
    blocked    its grammar is being compiled: the policy hears of it when that is done
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.request_queue import RequestQueue

from engine.vllm._request import Record

if TYPE_CHECKING:
    from engine.vllm._state import State

QUEUE, ASIDE, REFUSED, BLOCKED = "queue", "aside", "refused", "blocked"
READY = ("WAITING", "PREEMPTED")


class PolicyQueue(RequestQueue):
    """`self.waiting` of a scheduler with a policy."""

    def __init__(self, state: State, asks_for_head: Callable[[], bool]) -> None:
        self.state, self.queue = state, state.waiting
        self.asks_for_head = asks_for_head  # no seat is free, say: then vLLM does not look who it is
        self.planning = False
        self.closed = False  # the policy lets nobody else in, in this step
        self.head: Record | None = None  # whom vLLM was shown, in this turn of its loop
        self.asked = False  # the policy was asked for the head, and nobody has come in since
        self.popped: Record | None = None  # whom it took then: it has come in, or is set aside
        self.elsewhere: dict[Record, None] = {}  # aside, refused, blocked
        self.on_turn: Callable[[], None] = lambda: None  # at each turn of the loop that admits

    # --- what vLLM does

    def add_request(self, request: Any) -> None:
        """It arrives."""
        record: Record = request.twin_record
        if record.place == REFUSED or request.status.name not in READY:
            record.place = record.place or BLOCKED
            self.elsewhere[record] = None
        else:
            self.arrive(record)

    def arrive(self, record: Record) -> None:
        policy, view = self.state.policy, self.state.view
        record.known = True
        if policy.on_arrival is not None:
            policy.on_arrival(record.view, view)
        record.place = QUEUE
        self.queue.push(record)  # type: ignore[arg-type]
        if policy.on_wait is not None:
            policy.on_wait(record.view, view)

    def prepend_request(self, request: Any) -> None:
        """It has been preempted."""
        record: Record = request.twin_record
        record.place = QUEUE
        self.queue.push_front(record)  # type: ignore[arg-type]
        policy = self.state.policy
        if policy.on_wait is not None:
            policy.on_wait(record.view, self.state.view)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """Those that were set aside in this step, the last of them first."""
        for request in requests:
            record: Record = request.twin_record
            if record.place == ASIDE:
                del self.elsewhere[record]
                record.place = QUEUE
                self.queue.push_front(record)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        """Whether anybody waits; while a step is put together, whether anybody may come in."""
        if not self.planning:
            return len(self) > 0
        self.on_turn()
        self.head = None
        if self.closed or not self.queue:
            return False
        if not self.asks_for_head():
            return True
        head: Any = self.queue.head()
        self.asked = True
        if head is None or head.place != QUEUE:  # `pick` chose one that is passed over: nobody comes before it
            return False
        self.head = head
        return True

    def peek_request(self) -> Any:
        head: Any = self.head or self.queue.head()
        if head is None:
            raise IndexError("peek from an empty queue")
        self.head = head
        return head.request

    def pop_request(self) -> Any:
        """The one that was peeked at."""
        request = self.peek_request()
        record, self.head = request.twin_record, None
        if self.closed or record.rejected:  # it stays where it is; it has left the queue already
            return request
        self.queue.pop(record)
        record.place = None
        self.popped, self.asked = record, False
        return request

    def remove_request(self, request: Any) -> None:
        record: Record = request.twin_record
        if record.place == QUEUE:
            self.queue.remove(record)  # type: ignore[arg-type]
        else:
            self.elsewhere.pop(record, None)
        record.place = None

    def remove_requests(self, requests: Iterable[Any]) -> None:
        for request in requests:
            self.remove_request(request)

    def __len__(self) -> int:
        return len(self.queue) + len(self.elsewhere)

    def __iter__(self) -> Iterator[Any]:
        members: list[Any] = [*self.queue.in_order(), *self.elsewhere]
        return (record.request for record in members)

    # --- what the scheduler does

    def set_aside(self, record: Record) -> None:
        """It was popped and has not come in."""
        if not record.rejected:
            record.place = ASIDE
            self.elsewhere[record] = None

    def blocked(self) -> list[Record]:
        return [record for record in self.elsewhere if record.place == BLOCKED]
