"""Processes that simulate side by side, and of which none is left whatever happens."""

import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager


@contextmanager
def processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """So many processes while the block lasts; when it ends by an exception, what they are at is dropped."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _quiet)
    done = False
    try:
        yield pool
        done = True
    finally:
        if not done:
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _quiet() -> None:
    """Ctrl-C goes to all processes of a terminal: the one that started these answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
