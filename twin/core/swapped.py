"""Those who were swapped out or kept: a line of their own, beside the queue."""

from __future__ import annotations

from collections.abc import Collection

from twin.core.ordered import Sorted
from twin.core.request import Request


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
        if self.by_order is not None:
            return self.by_order.head()
        return self[0] if self else None

    def last_first(self, some: Collection[Request]) -> list[Request]:
        """Of some requests those that are here, the last in line first."""
        if self.by_order is None:
            return [request for request in reversed(self) if request in some]
        entries = [self.by_order[request] for request in some if request in self.by_order]
        return [entry[-1] for entry in sorted(entries, reverse=True)]
