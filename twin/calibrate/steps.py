"""Measured steps, wherever they come from: one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from twin.core.batch import Features

GRID, RUN = "grid", "run"  # compositions that somebody chose; steps of a system that served requests, in their order


@dataclass(frozen=True)
class About:
    """What a file says of itself; None: it does not say."""

    model: str | None = None
    shape: dict[str, Any] | None = None  # layers, hidden, heads, ... as in twin.memory.ModelShape
    gpu: str | None = None  # as its maker calls it
    gpus: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None


@dataclass(frozen=True)
class Swaps:
    """Steps before which blocks crossed the link between device and host; rows in order."""

    blocks: np.ndarray  # that moved
    copies: np.ndarray  # in which they moved: consecutive ones go together
    seconds: np.ndarray  # of the step, until the blocks are where they belong
    block_bytes: int


@dataclass(frozen=True)
class Steps:
    """Rows of measured steps: what each consisted of, and how long it took."""

    features: np.ndarray  # (rows, 7): the columns are those of `Features`
    seconds: np.ndarray  # (rows,)
    runs: tuple[str, ...]  # the files or folders that they are from
    run: np.ndarray  # (rows,) which of `runs`
    kind: str  # GRID or RUN
    source: str  # one phrase for the latency file
    about: About = About()
    host_s: np.ndarray | None = None  # (rows,) of `seconds`, what the host added; None: nobody measured it
    swaps: Swaps | None = None
    contaminated: int = 0  # rows that were left out because their times are not to be trusted
    notes: tuple[str, ...] = field(default=())  # for the user

    def __len__(self) -> int:
        return len(self.seconds)

    def column(self, name: str) -> np.ndarray:
        """One of the columns of `Features`."""
        return self.features[:, Features._fields.index(name)]

    def step(self, row: int) -> Features:
        values = self.features[row]
        sequences, prefill, decodes, context, of_prefill, _, parts = map(int, values)
        return Features(sequences, prefill, decodes, context, of_prefill, float(values[5]), parts)

    def chosen(self, rows: np.ndarray) -> Steps:
        """Those that a mask or a list of numbers names."""
        host_s = None if self.host_s is None else self.host_s[rows]
        return replace(self, features=self.features[rows], seconds=self.seconds[rows], run=self.run[rows], host_s=host_s)

    @property
    def usual_s(self) -> np.ndarray:
        """(rows,) mean duration of the steps of the same composition."""
        _, kind, count = np.unique(self.features, axis=0, return_inverse=True, return_counts=True)
        kind = kind.reshape(-1)
        return np.asarray((np.bincount(kind, self.seconds) / count)[kind])

    @property
    def distinct(self) -> int:
        """How many different compositions there are."""
        return len(np.unique(self.features, axis=0))


def joined(parts: Sequence[Steps]) -> Steps:
    """The rows of several tables of one model and machine; the caller has made sure that they are."""
    first = parts[0]
    if len(parts) == 1:
        return first
    runs: list[str] = []
    number = []
    for part in parts:
        number.append(part.run + len(runs))
        runs += [_new_name(name, runs) for name in part.runs]
    swaps = [part.swaps for part in parts if part.swaps is not None]
    hosts = [part.host_s for part in parts if part.host_s is not None]
    return Steps(
        features=np.concatenate([part.features for part in parts]),
        seconds=np.concatenate([part.seconds for part in parts]),
        runs=tuple(runs),
        run=np.concatenate(number),
        kind=RUN if all(part.kind == RUN for part in parts) else GRID,
        source=" and ".join(dict.fromkeys(part.source for part in parts)),
        about=first.about,
        host_s=np.concatenate(hosts) if len(hosts) == len(parts) else None,
        swaps=_joined_swaps(swaps) if swaps else None,
        contaminated=sum(part.contaminated for part in parts),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _new_name(name: str, there: Sequence[str]) -> str:
    """The name, or with a number behind it if there is one of this name."""
    return next(each for each in (name, *(f"{name}-{count}" for count in range(2, len(there) + 3))) if each not in there)


def _joined_swaps(parts: Sequence[Swaps]) -> Swaps:
    same = [part for part in parts if part.block_bytes == parts[0].block_bytes]
    blocks, copies, seconds = (
        np.concatenate([getattr(part, name) for part in same]) for name in ("blocks", "copies", "seconds")
    )
    return Swaps(blocks, copies, seconds, same[0].block_bytes)


def feature_rows(columns: Iterable[np.ndarray]) -> np.ndarray:
    """(rows, 7) from the columns of `Features` in their order."""
    return np.stack([np.asarray(column, float) for column in columns], axis=1)
