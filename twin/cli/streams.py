"""Standard output and error as they really are: closed, full, or of few letters. No result depends on them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class OutputLost(Exception):
    """Standard output took no more; the text says why."""


def make_ready() -> None:
    """Fills closed streams with the null device, and lets letters that a stream does not have appear as `\\xb1`."""
    if sys.stdout is None or sys.stderr is None:
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # else the next file would become standard output
            pass
        os.close(descriptor)
        sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def complain(line: str) -> None:
    """One line on standard error, if that takes it; when it does not there is nobody left to tell."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        _to_nowhere(sys.stderr)


def flush() -> None:
    """Sends off what is still to be printed. Raises OutputLost; a reader that has gone (head, less) is none."""
    with checked():
        sys.stdout.flush()


@contextmanager
def checked() -> Iterator[None]:
    """Turns what standard output says in the block into OutputLost; a reader that has gone ends the block quietly."""
    try:
        yield
    except BrokenPipeError:
        _to_nowhere(sys.stdout)
    except OSError as error:
        if error.filename is not None or error.errno is None:  # a file's, not the stream's
            raise
        _to_nowhere(sys.stdout)
        raise OutputLost(f"standard output: {(error.strerror or str(error)).lower()}") from error


@contextmanager
def work_first() -> Iterator[None]:
    """Whatever standard output says in the block, the work goes on; at its end OutputLost is raised, if it is due."""
    tolerant = _Tolerant(sys.stdout)
    inner, sys.stdout = sys.stdout, tolerant
    try:
        yield
    finally:
        sys.stdout = inner
    if tolerant.error is not None and not isinstance(tolerant.error, BrokenPipeError):
        with checked():
            raise tolerant.error


class _Tolerant:
    """A stream that keeps its first error to itself and is silent from then on."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        try:
            self.stream.write(text)
        except OSError as error:
            self._fail(error)
        return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.error = self.error or error
        _to_nowhere(self.stream)


def _to_nowhere(stream: Any) -> None:
    """What the stream still holds, and all to come, goes to the null device: the interpreter flushes it at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError:  # no descriptor of its own, so nothing will be flushed to it either
        pass
