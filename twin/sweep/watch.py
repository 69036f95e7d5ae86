"""Says of each unit when it has ended, whoever runs it: the folders tell."""

import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from twin.sweep import ledger
from twin.sweep.jobs import Unit

POLL_S = 0.25


class Watch:
    """A context in which `tell(unit, how many have ended, how many there are)` is called once for each that ends."""

    def __init__(self, units: Sequence[Unit], tell: Callable[[Unit, int, int], None]) -> None:
        self._open, self._total, self._tell = list(units), len(units), tell
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        over = False
        while not over:
            over = self._over.wait(POLL_S)
            for unit in [unit for unit in self._open if unit.status() in ledger.ENDED]:
                self._open.remove(unit)
                self._tell(unit, self._total - len(self._open), self._total)
