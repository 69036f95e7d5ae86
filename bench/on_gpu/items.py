"""What a part of a section tells while it is at work, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.on_gpu.budget import Deadline
from bench.on_gpu.setup import Setup


class Row(NamedTuple):
    """One row of a table (tables.py); columns that are left out stay empty."""

    table: str
    values: dict[str, Any]


class Note(NamedTuple):
    """What a reader of the figures has to know."""

    text: str


class Facts(NamedTuple):
    """Of the device, for the JSON."""

    values: dict[str, Any]


Item = Row | Note | Facts
Part = Callable[[Setup, Deadline], Iterator[Item]]  # importable by name: it runs in a process of its own


@dataclass(frozen=True)
class Section:
    """Parts that may run at the same time, up to `at_once`; figures of time come from parts that run alone."""

    name: str
    share: float  # of the run's time
    parts: dict[str, Part]
    at_once: int = 1


DONE, FAILED, BROKEN, OUT_OF_TIME, NOT_BEGUN = "done", "failed", "broken", "out of time", "not begun"


@dataclass
class PartResult:
    """How a part ended: done; failed in a way that is foreseen; broken by what is a defect; stopped; or never begun."""

    part: str
    state: str
    seconds: float = 0.0
    why: str = ""
    traceback: str = ""  # of what broke, or the end of what was printed


@dataclass
class Outcome:
    """Of a section."""

    name: str
    allotted_s: float
    seconds: float = 0.0
    parts: list[PartResult] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    @property
    def state(self) -> str:
        """The worst of its parts."""
        worst = (BROKEN, FAILED, OUT_OF_TIME, NOT_BEGUN, DONE)
        return min((part.state for part in self.parts), key=worst.index, default=NOT_BEGUN)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [item.values for item in self.items if isinstance(item, Row) and item.table == table]

    @property
    def notes(self) -> list[str]:
        return [item.text for item in self.items if isinstance(item, Note)]
