"""One sweep at a time in a folder: two would run the same jobs, and each take away what the other writes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

LOCK = ".sweep.lock"


class TakenError(RuntimeError):
    """Another sweep is at work there."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """A context in which no other process is in this context of the same folder; whoever dies in it leaves it.

    Raises TakenError at once where one is, OSError where the folder cannot be written to. A system that knows no such locks
    keeps nobody out.
    """
    path = folder / LOCK
    handle = _locked(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before it is let go: who has it open already will find another file there, or none
        handle.close()


def _locked(path: Path) -> IO[bytes]:
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:  # Windows
        return path.open("ab")
    while True:
        handle = path.open("ab")
        try:
            flock(handle, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            handle.close()
            raise TakenError("another sweep is at work there; wait for its end, or name another folder") from None
        except OSError:  # a file system without locks
            return handle
        if _is_still(handle, path):
            return handle
        handle.close()


def _is_still(handle: IO[bytes], path: Path) -> bool:
    """Whether the open file is the one of that name, and not one that somebody has let go of meanwhile."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False
