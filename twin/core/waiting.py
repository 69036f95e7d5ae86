"""Those who wait. One small interface, and the cheapest queue that a policy's declarations allow.

push(request) -> bool       at its place; True if the head may be another one now
push_front(request)         a preempted one comes back
head() / pop(request)       pop takes the head (a whole-plan policy may take anybody)
remove(request)             it is aborted
reorder(request)            order() has another key for it now
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
from twin.policy import Policy, RequestView, SystemView


class Queue(Protocol):
    def push(self, request: Request) -> bool: ...
    def push_front(self, request: Request) -> Any: ...
    def head(self) -> Request | None: ...
    def pop(self, request: Request) -> None: ...
    def remove(self, request: Request) -> None: ...
    def reorder(self, request: Request) -> None: ...
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

    def pop(self, request: Request) -> None:  # type: ignore[override]
        if self[0] is request:
            self.popleft()
        else:
            self.remove(request)

    def heads(self) -> list[Request]:
        return [self[0]] if self else []

    def in_order(self) -> Iterable[Request]:
        return self


class Sorted(dict[Request, Any]):
    """The key of a request stays what it is until it is reordered: a heap. On equal keys by arrival, then by id, as in vLLM.

    Request -> its entry (key, arrival, id, serial number, request). An entry of the heap that is not its request's any more
    is dead: it is dropped when it comes to the top, or when the dead are the most.
    """

    def __init__(self, policy: Policy, view: SystemView) -> None:
        super().__init__()
        assert policy.order is not None
        self.order, self.view = policy.order, view
        self.heap: list[tuple[Any, float, str, int, Request]] = []
        self.serial = 0

    def push(self, request: Request) -> bool:
        self.serial += 1
        key = self.order(request.view, self.view)
        if key is None:  # all would be equal, and nobody would notice
            raise _no_key(request)
        entry = (key, request.arrival_s, request.id, self.serial, request)
        self[request] = entry
        try:
            heappush(self.heap, entry)
        except (TypeError, ValueError) as error:  # ValueError: the truth of an array
            raise _incomparable(entry[0], request, error) from error
        return self.head() is request

    push_front = push

    def reorder(self, request: Request) -> None:
        if len(self.heap) > 2 * len(self) + 64:
            self.heap = list(self.values())
            heapify(self.heap)
        self.push(request)

    def head(self) -> Request | None:
        heap = self.heap
        while heap and self.get(heap[0][-1]) is not heap[0]:
            heappop(heap)
        return heap[0][-1] if heap else None

    def pop(self, request: Request) -> None:  # type: ignore[override]
        del self[request]

    def remove(self, request: Request) -> None:
        del self[request]

    def heads(self) -> list[Request]:
        head = self.head()
        return [] if head is None else [head]

    def in_order(self) -> list[Request]:
        return [entry[-1] for entry in sorted(self.values())]


class Picked(dict[Request, None]):
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

    def pop(self, request: Request) -> None:  # type: ignore[override]
        del self[request]

    def remove(self, request: Request) -> None:
        del self[request]

    def heads(self) -> Iterable[Request]:
        return self

    def in_order(self) -> Iterable[Request]:
        return self


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

    def reorder(self, request: Request) -> None:
        """Keys are asked for again and again."""

    def rank(self, request: Request) -> tuple[Any, float, str]:
        key = self.order(request.view, self.view)
        if key is None:
            raise _no_key(request)
        return key, request.arrival_s, request.id

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


class Swapped(list[Request]):
    """Those who lost their seat and not their blocks, the last to go first. They are a line of their own.

    `first` comes back first: the last to go, or under a preemptive order (`by_order`) the first in that.
    """

    def __init__(self, by_order: Sorted | None) -> None:
        super().__init__()
        self.by_order = by_order

    def park(self, request: Request) -> None:
        self.insert(0, request)
        if self.by_order is not None:
            self.by_order.push(request)

    def remove(self, request: Request) -> None:
        super().remove(request)
        if self.by_order is not None:
            self.by_order.remove(request)

    def reorder(self, request: Request) -> None:
        if self.by_order is not None:
            self.by_order.reorder(request)

    def first(self) -> Request | None:
        return self[0] if self.by_order is None else self.by_order.head()

    def in_line(self) -> list[Request]:
        """All of them, the first first."""
        return self if self.by_order is None else self.by_order.in_order()


def _no_key(request: Request) -> PolicyError:
    return PolicyError(f"order() returned None for {request.id}: it must return a key (a missing return, or no predictor?)")


def _incomparable(key: object, request: Request, error: Exception) -> PolicyError:
    return PolicyError(f"order() returned {key!r} for {request.id}: keys must compare ({error})")
