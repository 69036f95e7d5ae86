"""What is under way, in one line of a terminal that is wiped at the end; nothing where standard error is no terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """Gives the function that shows a line in place of the one before it."""
    if not sys.stderr.isatty():
        yield lambda line: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda line: status.update(line)
