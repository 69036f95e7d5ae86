"""A process for each part: what hangs is ended, what crashes takes nothing else with it.

A kernel that reads where it must not spoils the CUDA context of its process for good, and one that hangs cannot be stopped
from within. So every part has a process and a context of its own. They are forked from a server that has imported torch but
never touched the device, hence begin at once. A part hands over each row when it has it: what was measured before its end,
whatever that is, is kept.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from bench.on_gpu.budget import Clock, Deadline
from bench.on_gpu.items import BROKEN, DONE, FAILED, NOT_BEGUN, OUT_OF_TIME, Item, Part, PartResult, Section
from bench.on_gpu.setup import Setup

PRELOADED = ["torch", "engine.build", "engine.executor", "engine.checks.everything", "bench.on_gpu.sections"]
INTERRUPTED_AFTER_S, KILLED_AFTER_S = 3.0, 6.0  # behind a section's end, which parts should keep by themselves
JOIN_S = 5.0
KEPT_OF_LOG = 6000  # characters


def run_section(
    section: Section, setup: Setup, seconds: float, hear: Callable[[Item], None], clock: Clock = time.monotonic
) -> list[PartResult]:
    """All parts of a section, within `seconds` and a grace of `KILLED_AFTER_S`. `hear` gets rows as they come."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    ends_s = clock() + seconds
    waiting, results = list(section.parts.items()), []
    running: list[_Running] = []
    with tempfile.TemporaryDirectory() as logs:
        try:
            while waiting or running:
                while waiting and len(running) < section.at_once and clock() < ends_s:
                    running.append(_Running(*waiting.pop(0), setup, ends_s, Path(logs), clock))
                if clock() >= ends_s:
                    results += [PartResult(name, NOT_BEGUN, why="no time was left") for name, _ in waiting]
                    waiting = []
                for process in _with_news(running, ends_s, clock):
                    process.receive(hear)
                for process in running:
                    process.keep_to(ends_s)
                results += [process.result for process in running if process.result]
                running = [process for process in running if not process.result]
        finally:
            for process in running:
                process.kill()
    order = list(section.parts)
    return sorted(results, key=lambda result: order.index(result.part))


def _with_news(running: list[_Running], ends_s: float, clock: Clock) -> list[_Running]:
    """Those that have said something or ended; waits for a while."""
    now = clock()
    moments = (ends_s, ends_s + INTERRUPTED_AFTER_S, ends_s + KILLED_AFTER_S)
    patience_s = min((moment - now for moment in moments if moment > now), default=JOIN_S)
    ready = set(map(id, wait([process.pipe for process in running], min(patience_s, JOIN_S))))
    return [process for process in running if id(process.pipe) in ready]


class _Running:
    """A part in its process."""

    def __init__(self, name: str, part: Part, setup: Setup, ends_s: float, logs: Path, clock: Clock) -> None:
        context = multiprocessing.get_context("forkserver")
        self.name, self.clock, self.began_s = name, clock, clock()
        self.log = Path(tempfile.mkstemp(dir=logs, suffix=".log")[1])
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(
            target=_work, args=(part, setup, ends_s - self.began_s, theirs, str(self.log)), daemon=True
        )
        self.process.start()
        theirs.close()  # so that its end is seen here
        self.ended: tuple[str, str] | None = None  # (state, why), by its own word
        self.interrupted = self.killed = False
        self.result: PartResult | None = None

    def receive(self, hear: Callable[[Item], None]) -> None:
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):  # also in the middle of a row, when it was killed
            self._finish()
            return
        if isinstance(message, _Ended):
            self.ended = message.state, message.why
        else:
            hear(message)

    def keep_to(self, ends_s: float) -> None:
        """Behind the end first a word, then force."""
        late_s = self.clock() - ends_s
        if self.result is None and late_s > INTERRUPTED_AFTER_S and not self.interrupted:
            self.interrupted = True
            assert self.process.pid is not None
            try:
                os.kill(self.process.pid, signal.SIGINT)
            except ProcessLookupError:
                pass  # it has just ended
        if self.result is None and late_s > KILLED_AFTER_S and not self.killed:
            self.kill()

    def kill(self) -> None:
        """With all that it has started: compilers, say."""
        self.killed = True
        assert self.process.pid is not None
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            self.process.kill()  # it has no group of its own yet

    def _finish(self) -> None:
        self.process.join(JOIN_S)
        self.pipe.close()
        seconds, printed = self.clock() - self.began_s, self.log.read_text(errors="replace")[-KEPT_OF_LOG:]
        if self.killed:
            self.result = PartResult(self.name, OUT_OF_TIME, seconds, "did not end in time and was stopped", printed)
        elif self.ended:
            state, why = self.ended
            self.result = PartResult(self.name, state, seconds, why, printed if state != DONE else "")
        else:
            why = f"ended with status {self.process.exitcode}"
            self.result = PartResult(self.name, BROKEN, seconds, why, printed)


class _Ended:
    """A part's last word."""

    def __init__(self, state: str, why: str = "") -> None:
        self.state, self.why = state, why


def _work(part: Part, setup: Setup, seconds: float, pipe: Connection, log: str) -> None:
    """In the process of a part. What is not foreseen ends it, with a traceback in its log."""
    os.setsid()
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = open(1, "w", buffering=1, closefd=False), open(2, "w", buffering=1, closefd=False)
    faulthandler.enable(sys.stderr)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    import torch

    from engine.errors import EngineError, StepFailure
    from twin.cli.errors import UserError, one_line

    try:
        for item in part(setup, Deadline(seconds)):
            pipe.send(item)
        pipe.send(_Ended(DONE))
    except (EngineError, StepFailure, UserError, torch.OutOfMemoryError) as error:
        pipe.send(_Ended(FAILED, one_line(f"{type(error).__name__}: {error}")))
    except KeyboardInterrupt:
        pipe.send(_Ended(OUT_OF_TIME, "did not end in time and was interrupted"))
