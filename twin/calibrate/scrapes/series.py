"""Scrapes side by side: counters as what was added since the first one, gauges, and histograms of the whole time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from twin.calibrate.scrapes.exposition import PREFIX, Key, Scrape

SERVER = ("model_name", "engine", "instance", "pod", "namespace", "job")  # labels that tell one server from another


@dataclass(frozen=True, eq=False)
class Histogram:
    """Observations by bucket: `counts[i]` of them are at most `edges[i]` and above the edge before; the last edge is inf."""

    edges: np.ndarray
    counts: np.ndarray
    total_s: float

    @property
    def number(self) -> float:
        return float(self.counts.sum())

    @property
    def mean(self) -> float:
        return self.total_s / self.number if self.number else float("nan")

    def shares(self) -> np.ndarray:
        """Share of the observations up to each edge."""
        return np.cumsum(self.counts) / self.number

    def quantile(self, q: float) -> float:
        """As PromQL's histogram_quantile has it: linear within a bucket, the last finite edge beyond that."""
        if not self.number:
            return float("nan")
        below = np.cumsum(self.counts)
        place = int(np.searchsorted(below, q * self.number))
        if place >= len(self.edges) - 1:
            return float(self.edges[-2])
        low = self.edges[place - 1] if place else 0.0
        before = below[place - 1] if place else 0.0
        return float(low + (self.edges[place] - low) * (q * self.number - before) / self.counts[place])


@dataclass(frozen=True, eq=False)
class Scrapes:
    """The scrapes of one server: times in seconds since 1970, ascending, and a row of values a series (nan: not there)."""

    source: str
    at_s: np.ndarray
    table: dict[Key, np.ndarray]
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.at_s)

    @property
    def seconds(self) -> float:
        return float(self.at_s[-1] - self.at_s[0])

    def added(self, name: str) -> np.ndarray | None:
        """What a counter of vLLM's counted since the first scrape, over all its labels; None where there is none."""
        return self._added(f"{PREFIX}{name}_total")

    def gauge(self, name: str) -> np.ndarray | None:
        found = [values for (named, _), values in self.table.items() if named == PREFIX + name]
        return np.sum(found, axis=0) if found else None

    def histogram(self, name: str) -> Histogram | None:
        """What was observed between the first scrape and the last; None where there is none."""
        edges = sorted({float(dict(labels)["le"]) for named, labels in self.table if named == f"{PREFIX}{name}_bucket"})
        total = self._added(f"{PREFIX}{name}_sum")
        if len(edges) < 2 or edges[-1] != np.inf or total is None:
            return None
        below = []
        for edge in edges:
            added = self._added(f"{PREFIX}{name}_bucket", edge)
            assert added is not None
            below.append(added[-1])
        return Histogram(np.array(edges), np.diff(below, prepend=0.0), float(total[-1]))

    def labels_of(self, name: str) -> list[dict[str, str]]:
        """The sets of labels of a series, as the last scrape has them."""
        rows = self.table.items()
        return [dict(labels) for (named, labels), row in rows if named == PREFIX + name and np.isfinite(row[-1])]

    def _added(self, name: str, edge: float | None = None) -> np.ndarray | None:
        chosen = [
            row
            for (named, labels), row in self.table.items()
            if named == name and (edge is None or float(dict(labels)["le"]) == edge)
        ]
        return np.sum([increase(row) for row in chosen], axis=0) if chosen else None


def increase(row: np.ndarray) -> np.ndarray:
    """Of a counter, since its first value. One that was not there yet was 0; one that fell began anew at 0."""
    known = np.isfinite(row)
    latest = np.maximum.accumulate(np.where(known, np.arange(len(row)), -1))
    filled = np.where(latest >= 0, row[np.maximum(latest, 0)], 0.0)
    steps = np.diff(filled)
    return np.concatenate(([0.0], np.cumsum(np.where(steps < 0, filled[1:], steps))))


def side_by_side(source: str, scrapes: Sequence[Scrape], notes: list[str]) -> Scrapes:
    """Raises ValueError, in one line, where there are several servers, or fewer than two scrapes."""
    ordered = sorted(scrapes, key=lambda scrape: scrape.at_s or 0.0)
    most = max((len(scrape.samples) for scrape in ordered), default=0)
    if len(ordered) > 1 and len(ordered[-1].samples) < len(ordered[-2].samples):
        notes.append(f"{source}: the last scrape holds less than the one before: cut off, left out")
        ordered = ordered[:-1]
    if len(ordered) < 2 or not most:
        raise ValueError(
            f"metrics={source}: {len(ordered)} whole scrape; rates need two or more (served= takes one, for its options)"
        )
    at_s = np.array([scrape.at_s for scrape in ordered], float)
    if (again := np.flatnonzero(np.diff(at_s) <= 0)).size:
        raise ValueError(f"metrics={source}: two scrapes at the same time, {at_s[again[0]]:.3f}")
    table: dict[Key, np.ndarray] = {}
    for place, scrape in enumerate(ordered):
        for key, value in scrape.samples.items():
            table.setdefault(key, np.full(len(ordered), np.nan))[place] = value
    check_edges(source, table)
    check_one_server(source, table)
    if restarted(table):
        notes.append(
            f"{source}: counters fell: the server was started again between two scrapes, and what it did there is lost"
        )
    return Scrapes(source, at_s, table, notes)


def check_edges(source: str, table: dict[Key, np.ndarray]) -> None:
    for name, labels in table:
        if name.endswith("_bucket"):
            edge = dict(labels).get("le", "")
            try:
                float(edge)
            except ValueError:
                raise ValueError(f"metrics={source}: {name} with le={edge!r}: a bucket's edge must be a number") from None


def check_one_server(source: str, table: dict[Key, np.ndarray]) -> None:
    for label in SERVER:
        seen = {dict(labels)[label] for (_, labels) in table if label in dict(labels)}
        if len(seen) > 1:
            shown = ", ".join(sorted(seen)[:4])
            raise ValueError(
                f"metrics={source}: {len(seen)} servers ({label}={shown}); one is simulated: scrape or query one, "
                f'{{__name__=~"vllm:.*", {label}="{sorted(seen)[0]}"}}'
            )


def restarted(table: dict[Key, np.ndarray]) -> bool:
    def fell(row: np.ndarray) -> bool:
        return bool((np.diff(row[np.isfinite(row)]) < 0).any())

    return any(fell(row) for (name, _), row in table.items() if name.endswith(("_total", "_count", "_bucket")))
