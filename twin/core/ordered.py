"""Queues by the keys that a policy's `order` gives: a heap, a scan of all, or a scan of the first of each group."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from twin.core.errors import PolicyError
from twin.core.request import Request
from twin.policy import Policy, SystemView

if TYPE_CHECKING:
    from twin.core.state import State


def key_of(state: State, request: Request) -> Any:
    """Its place in the policy's order, asked now."""
    assert state.policy.order is not None
    return state.policy.order(request.view, state.view)


def is_less(key: Any, other: Any) -> bool:
    """Whether one key comes strictly before another; raises `PolicyError` where they do not compare."""
    try:
        return bool(key < other)
    except (TypeError, ValueError) as error:  # ValueError: the truth of an array
        raise PolicyError(f"order() returned {key!r} and {other!r}: keys must compare ({error})") from error


class Members(dict[Any, Any]):
    """Those who wait, as the keys of a dict: to leave costs the same wherever one stands."""

    def head_as_it_stands(self) -> Request | None:
        """The head, if it is known without asking the policy and without comparing keys."""
        return None

    def pop(self, request: Request) -> None:  # type: ignore[override]
        del self[request]

    remove = pop


class Sorted(Members):
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
            try:
                heappop(heap)
            except (TypeError, ValueError) as error:
                raise PolicyError(f"order() returned keys of waiting requests that do not compare ({error})") from error
        return heap[0][-1] if heap else None

    def head_as_it_stands(self) -> Request | None:
        """None if the dead would have to be dropped first."""
        return self.heap[0][-1] if self.heap and self.get(self.heap[0][-1]) is self.heap[0] else None

    def heads(self) -> list[Request]:
        head = self.head()
        return [] if head is None else [head]

    def in_order(self) -> list[Request]:
        return [entry[-1] for entry in sorted(self.values())]


class Scanned(Members):
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


def _no_key(request: Request) -> PolicyError:
    return PolicyError(f"order() returned None for {request.id}: it must return a key (a missing return, or no predictor?)")


def _incomparable(key: object, request: Request, error: Exception) -> PolicyError:
    return PolicyError(f"order() returned {key!r} for {request.id}: keys must compare ({error})")
