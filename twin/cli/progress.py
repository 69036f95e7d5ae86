"""A progress bar for long runs: by finished requests, on a terminal only, and not within the first second."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

PATIENCE_S = 1.0  # runs shorter than that show nothing
REFRESH_S = 0.1


class ProgressBar:
    """Called with (finished requests, virtual seconds) as often as one likes; a context manager that cleans up."""

    def __init__(self, total: int, stream: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._clock = total, clock
        self._stream = sys.stderr if stream is None else stream
        self._next_s = clock() + PATIENCE_S
        self._bar: Any = None
        self._task: Any = None

    def __call__(self, finished: int, virtual_s: float) -> None:
        now = self._clock()
        if now < self._next_s:
            return
        self._next_s = now + REFRESH_S
        if self._bar is None:
            self._start()
        self._bar.update(self._task, completed=finished, virtual=f"{virtual_s:,.0f} s simulated", refresh=True)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[virtual]}", markup=False))
        console = Console(file=self._stream)
        self._bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True, auto_refresh=False)
        self._task = self._bar.add_task("", total=self._total, virtual="")
        self._bar.start()

    def __enter__(self) -> "ProgressBar | None":
        return self if self._stream.isatty() else None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
