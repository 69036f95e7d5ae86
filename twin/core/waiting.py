"""Those who wait. One small interface, and the cheapest queue that a policy's declarations allow.

push(request) -> bool       at its place; True if the head may be another one now
push_front(request)         a preempted one comes back
head() / pop(request)       pop takes the head (a whole-plan policy may take anybody)
remove(request)             it is aborted
heads()                     all that could be the head whatever order() comes to say
in_order()                  all, the head first: costs what it lists
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any, Protocol

from twin.core.errors import PolicyError
from twin.core.request import Request
from twin.policy import Policy, SystemView


class Queue(Protocol):
    def push(self, request: Request) -> bool: ...
    def push_front(self, request: Request) -> Any: ...
    def head(self) -> Request | None: ...
    def pop(self, request: Request) -> None: ...
    def remove(self, request: Request) -> None: ...
    def heads(self) -> Iterable[Request]: ...
    def in_order(self) -> Iterable[Request]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Request]: ...  # in any order, without asking order()


def make_queue(policy: Policy, view: SystemView) -> Queue:
    """The queue for a policy."""
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

    def head(self) -> Request | None:
        return self[0] if self else None

    def pop(self, request: Request) -> None:  # type: ignore[override]
        if self[0] is request:
            self.popleft()
        else:
            self.remove(request)

    def heads(self) -> list[Request]:
        return [self[0]] if self else []

    def in_order(self) -> Iterable[Request]:
        return self


class Sorted:
    """The key of a request is fixed while it waits: a heap. On equal keys by arrival, then by id, as in vLLM."""

    def __init__(self, policy: Policy, view: SystemView) -> None:
        assert policy.order is not None
        self.order, self.view = policy.order, view
        self.heap: list[tuple[Any, float, str, Request]] = []

    def push(self, request: Request) -> bool:
        entry = (self.order(request.view, self.view), request.arrival_s, request.id, request)
        try:
            heappush(self.heap, entry)
        except (TypeError, ValueError) as error:  # ValueError: the truth of an array
            raise _incomparable(entry[0], request, error) from error
        return self.heap[0][-1] is request

    push_front = push

    def __len__(self) -> int:
        return len(self.heap)

    def __iter__(self) -> Iterator[Request]:
        return (entry[-1] for entry in self.heap)

    def head(self) -> Request | None:
        return self.heap[0][-1] if self.heap else None

    def pop(self, request: Request) -> None:
        if self.heap[0][-1] is request:
            heappop(self.heap)
        else:
            self.remove(request)

    def remove(self, request: Request) -> None:
        self.heap = [entry for entry in self.heap if entry[-1] is not request]
        heapify(self.heap)

    def heads(self) -> list[Request]:
        return [self.heap[0][-1]] if self.heap else []

    def in_order(self) -> list[Request]:
        return [entry[-1] for entry in sorted(self.heap, key=lambda entry: entry[:-1])]


class Scanned(dict[Any, Any]):
    """Keys may change at any time: the smallest is looked for when it is asked."""

    def __init__(self, policy: Policy, view: SystemView) -> None:
        super().__init__()
        assert policy.order is not None
        self.order, self.view = policy.order, view

    def push(self, request: Request) -> bool:
        self[request] = None
        return True

    push_front = push

    def rank(self, request: Request) -> tuple[Any, float, str]:
        return self.order(request.view, self.view), request.arrival_s, request.id

    def head(self) -> Request | None:
        try:
            return min(self.heads(), key=self.rank, default=None)
        except (TypeError, ValueError) as error:  # ValueError: the truth of an array
            for request in self.heads():
                key = self.rank(request)[0]  # raises once more, if it was order() itself that raised
            raise _incomparable(key, request, error) from error

    def pop(self, request: Request) -> None:  # type: ignore[override]
        del self[request]

    def remove(self, request: Request) -> None:
        del self[request]

    def heads(self) -> Iterable[Request]:
        return self

    def in_order(self) -> list[Request]:
        return sorted(self, key=self.rank)


class Grouped(Scanned):
    """Keys change only group by group (a user, a tenant): order of arrival inside a group, smallest of its heads."""

    def __init__(self, policy: Policy, view: SystemView) -> None:
        super().__init__(policy, view)
        assert policy.group is not None
        self.group_of = attrgetter(policy.group)
        self.count = 0

    def push(self, request: Request) -> bool:
        self.count += 1
        line = self.setdefault(self.group_of(request), [])
        entry = (request.arrival_s, request.id, request)
        if line and entry < line[-1]:  # a preempted one comes back to its place
            insort(line, entry)
        else:
            line.append(entry)
        return True

    push_front = push

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Request]:
        return (entry[-1] for line in self.values() for entry in line)

    def pop(self, request: Request) -> None:  # type: ignore[override]
        self.remove(request)

    def remove(self, request: Request) -> None:
        group = self.group_of(request)
        line = self[group]
        place = bisect_left(line, (request.arrival_s, request.id))
        assert line[place][-1] is request
        del line[place]
        self.count -= 1
        if not line:
            del self[group]

    def heads(self) -> list[Request]:
        return [line[0][-1] for line in self.values()]

    def in_order(self) -> list[Request]:
        return sorted(self, key=self.rank)


def _incomparable(key: object, request: Request, error: Exception) -> PolicyError:
    return PolicyError(f"order() returned {key!r} for {request.id}: keys must compare ({error})")
