"""job.json: what a folder of a sweep is meant for, and how far it has come.

The sweep writes it before anything runs, whoever runs it changes its status, last of all to what came of it. So a folder
whose status is not `finished` for the very same configuration has to be done again, whatever lies in it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from twin.results.atomic import writing

JOB = "job.json"
WAITING, RUNNING, FINISHED, FAILED, INTERRUPTED = "waiting", "running", "finished", "failed", "interrupted"
STATUSES = (WAITING, RUNNING, FINISHED, FAILED, INTERRUPTED)
ENDED = (FINISHED, FAILED)


@dataclass(frozen=True)
class Entry:
    """What job.json says."""

    config_sha256: str
    overrides: tuple[str, ...]
    status: str = WAITING
    reason: str = ""  # one line: why it failed


def read(folder: Path) -> Entry | None:
    """The entry of a folder; None where there is none that can be read: such a folder is to be done again."""
    try:
        said = json.loads((folder / JOB).read_text(encoding="utf-8"))
        entry = Entry(**{**said, "overrides": tuple(said["overrides"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return entry if entry.status in STATUSES else None


def write(folder: Path, entry: Entry) -> None:
    """Raises OutputError."""
    with writing(folder / JOB) as handle:
        handle.write((json.dumps(asdict(entry), indent=2) + "\n").encode())


def mark(folder: Path, status: str, reason: str = "") -> None:
    """Changes the status of a folder that has an entry. Raises OutputError, and FileNotFoundError where there is none."""
    entry = read(folder)
    if entry is None:
        raise FileNotFoundError(2, "no such file", str(folder / JOB))
    write(folder, replace(entry, status=status, reason=reason))


def digest(values: Mapping[str, Any], others: Mapping[str, str]) -> str:
    """SHA-256 of a composed configuration, and of what it depends on beside (`others`: files by hash, versions)."""
    told = json.dumps({"values": values, "others": others}, sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()


class FileHashes:
    """SHA-256 of files, each read once."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def of(self, paths: Iterable[Path]) -> dict[str, str]:
        """By path, of those that are files. What cannot be read is found out when it is needed."""
        return {str(path): self._hash(path) for path in paths if path.is_file()}

    def _hash(self, path: Path) -> str:
        if path not in self._known:
            try:
                with path.open("rb") as handle:
                    self._known[path] = hashlib.file_digest(handle, "sha256").hexdigest()
            except OSError:
                self._known[path] = ""
        return self._known[path]
