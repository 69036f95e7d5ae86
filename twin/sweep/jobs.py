"""What a sweep consists of: jobs (a point of the grid each), and units of work (a seed of a job each)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twin.results.folder import is_whole
from twin.sweep import ledger


@dataclass(frozen=True)
class Unit:
    """One simulation: a folder below the sweep's, the words that describe it, the hash of what they mean."""

    folder: Path
    subdir: str  # the folder, seen from the sweep's
    words: tuple[str, ...]
    config_sha256: str

    def entry(self) -> ledger.Entry | None:
        """How far it has come; None when its folder is another configuration's, or nobody's."""
        entry = ledger.read(self.folder)
        return entry if entry is not None and entry.config_sha256 == self.config_sha256 else None

    def status(self) -> str:
        """How far it has come; finished only if its numbers are there, and none of them is cut off."""
        entry = self.entry()
        status = ledger.WAITING if entry is None else entry.status
        return ledger.WAITING if status == ledger.FINISHED and not is_whole(self.folder) else status

    def reason(self) -> str:
        """Why it failed."""
        entry = self.entry()
        return "" if entry is None else entry.reason


@dataclass(frozen=True)
class Job:
    """A point of the grid: its folder, what is swept with its value there, one unit a seed."""

    name: str  # of its folder
    folder: Path
    settings: dict[str, Any]  # swept option: its value
    units: tuple[Unit, ...]
    seeds: int


@dataclass
class Plan:
    """All of it, in the order of the grid."""

    folder: Path
    swept: tuple[str, ...]
    jobs: list[Job] = field(default_factory=list)

    def units(self) -> Iterator[Unit]:
        """Every unit of every job."""
        for job in self.jobs:
            yield from job.units

    def missing(self) -> list[Unit]:
        """The units that have not finished."""
        return [unit for unit in self.units() if unit.status() != ledger.FINISHED]
