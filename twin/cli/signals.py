"""Ctrl-C, `kill` and a closed terminal: all three interrupt a command the same way, and none costs what was done.

SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt where the program is. One that comes in a block that is `held`, or within
`PATIENCE_S` of the one before it (people press twice), waits for the end of that block. The exit status of an interrupted
command is 128 + the signal's number: 130 for Ctrl-C, 143 for `kill`.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

NAMES = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}  # SIGHUP is not on every system
WORDS = {int(getattr(signal, name)): words for name, words in NAMES.items() if hasattr(signal, name)}
PATIENCE_S = 5.0

_last = int(signal.SIGINT)  # the signal that came last
_holding = False
_waiting = False  # one came that has not been heeded
_quiet_until_s = 0.0


@contextmanager
def interruptible() -> Iterator[None]:
    """While it lasts the signals are interruptions; those that the parent process had ignored (`nohup`) stay ignored."""
    global _last
    _last = int(signal.SIGINT)
    _forget()
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
        before = {number: signal.getsignal(number) for number in WORDS}
    try:
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):
                signal.signal(number, _interrupt)
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """A block that must not be torn apart; raises KeyboardInterrupt at its end when a signal came meanwhile."""
    global _holding
    _holding = True
    try:
        yield
    finally:
        _holding = False
    waited = _waiting
    _forget()
    if waited:
        raise KeyboardInterrupt


@contextmanager
def heeded() -> Iterator[None]:
    """A part of a held block that may be interrupted after all."""
    global _holding
    _holding = False
    try:
        yield
    finally:
        _holding = True


def exit_status() -> int:
    """Of a command that the last signal has interrupted."""
    return 128 + _last


def in_words() -> str:
    """What the last signal did to the command: interrupted, terminated or hung up."""
    return WORDS[_last]


def _forget() -> None:
    global _waiting, _quiet_until_s
    _waiting, _quiet_until_s = False, 0.0


def _interrupt(number: int, _: FrameType | None) -> None:
    global _last, _waiting, _quiet_until_s
    _last = number
    now_s = time.monotonic()
    if _holding or now_s < _quiet_until_s:
        _waiting = True
        return
    _quiet_until_s = now_s + PATIENCE_S
    raise KeyboardInterrupt
