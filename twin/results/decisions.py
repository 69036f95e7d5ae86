"""decisions.jsonl.gz: what was decided in every step, a line each, in the form of a scenario's output."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from twin.results.atomic import AtomicFile


class DecisionsWriter:
    """Takes one step at a time; call it, or `write`. The file appears on `close`; `abort` leaves nothing.

    As a context manager it closes when the block ends well or is interrupted by Ctrl-C (what was decided until then is
    true), and aborts on any other error. Equal steps give equal bytes: gzip's time stamp is 0.
    """

    def __init__(self, path: Path) -> None:
        self._file = AtomicFile(path)
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=self._file.handle, mtime=0)

    def write(self, step: dict[str, Any]) -> None:
        """Appends a step. Raises OutputError when the disk is full; then nothing is left of the file."""
        line = json.dumps(step, separators=(",", ":"), allow_nan=False) + "\n"
        try:
            self._gzip.write(line.encode())
        except OSError as error:
            self.abort()
            raise self._file.failure(error) from error

    __call__ = write

    def close(self) -> None:
        """Ends the file and gives it its name."""
        try:
            self._gzip.close()
        except OSError as error:
            self.abort()
            raise self._file.failure(error) from error
        self._file.commit()

    def abort(self) -> None:
        """Removes what was written."""
        try:
            self._gzip.close()
        except OSError:
            pass  # the full disk that brought us here
        self._file.abort()

    def __enter__(self) -> "DecisionsWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self.close()
        else:
            self.abort()


def read_decisions(path: Path) -> Iterator[dict[str, Any]]:
    """The steps of a file that a `DecisionsWriter` has closed, in order, one at a time."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
