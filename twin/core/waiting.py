"""Those who wait. One small interface, and the cheapest queue that a policy's declarations allow.

push(request) -> bool       at its place; True if the head may be another one now
push_front(request)         a preempted one comes back
head() / pop(request)       pop takes the head (a whole-plan policy may take anybody)
remove(request)             it is aborted
reorder(request)            order() has another key for it now
head_as_it_stands()         the head, if it is known without asking the policy or comparing keys: for messages
heads()                     all that could be the head whatever order() comes to say
in_order()                  all, the head first: costs what it lists
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from twin.core.errors import PolicyError
from twin.core.ordered import Grouped, Members, Scanned, Sorted
from twin.core.request import Request
from twin.policy import Policy, RequestView, SystemView


class Queue(Protocol):
    def push(self, request: Request) -> bool: ...
    def push_front(self, request: Request) -> Any: ...
    def head(self) -> Request | None: ...
    def pop(self, request: Request) -> None: ...
    def remove(self, request: Request) -> None: ...
    def reorder(self, request: Request) -> None: ...
    def head_as_it_stands(self) -> Request | None: ...
    def heads(self) -> Iterable[Request]: ...
    def in_order(self) -> Iterable[Request]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Request]: ...  # in any order, without asking order()


def make_queue(policy: Policy, view: SystemView) -> Queue:
    """The queue for a policy."""
    if policy.pick is not None:
        return Picked(policy, view)
    if policy.order is None:
        return Fifo()
    if not policy.dynamic:
        return Sorted(policy, view)
    return Grouped(policy, view) if policy.group else Scanned(policy, view)


class Fifo(deque[Request]):
    """Order of arrival; preempted ones in front."""

    def push(self, request: Request) -> bool:
        self.append(request)
        return len(self) == 1

    def push_front(self, request: Request) -> None:
        self.appendleft(request)

    def reorder(self, request: Request) -> None:
        """There is no key."""

    def head(self) -> Request | None:
        return self[0] if self else None

    head_as_it_stands = head

    def pop(self, request: Request) -> None:  # type: ignore[override]
        if self[0] is request:
            self.popleft()
        else:
            self.remove(request)

    def heads(self) -> list[Request]:
        return [self[0]] if self else []

    def in_order(self) -> Iterable[Request]:
        return self


class Picked(Members):
    """The policy keeps the queue: it picks the head. Here only who waits, in order of coming."""

    def __init__(self, policy: Policy, view: SystemView) -> None:
        super().__init__()
        assert policy.pick is not None
        self.pick, self.view = policy.pick, view

    def push(self, request: Request) -> bool:
        self[request] = None
        return True

    push_front = push

    def reorder(self, request: Request) -> None:
        """It is the policy's own queue."""

    def head(self) -> Request | None:
        picked = self.pick(self.view) if self else None
        if picked is None:
            return None
        request = picked._request if isinstance(picked, RequestView) else None
        if request not in self:
            raise PolicyError(f"pick() chose {picked!r}, which is not one of the waiting requests")
        return request

    def heads(self) -> Iterable[Request]:
        return self

    def in_order(self) -> Iterable[Request]:
        return self
