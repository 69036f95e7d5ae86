"""Requests by the names that vLLM knows them by: their own, or those with a random suffix, `q1-a3f9`."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Names:
    """`unknown`: what to raise for a name that is none of theirs."""

    def __init__(self, requests: Iterable[str], unknown: Callable[[str], ValueError]) -> None:
        self.requests, self.unknown = frozenset(requests), unknown

    def of(self, name: str) -> str:
        """The request's own."""
        text = name
        while text not in self.requests:
            text, dash, _ = text.rpartition("-")
            if not dash:
                raise self.unknown(name)
        return text
