"""Starts the processes in which checks run, reads what they say, and sees to it that all of them end."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from twin.check.hang import where_it_hung
from twin.check.result import Result
from twin.check.subject import Subject

END_S = 5.0  # for a process that has said all
GRACE_S = 30.0  # beyond the limit of a scenario, for a process that does not even end itself
START = "import sys; sys.path[:] = {path!r}; from twin.check.child import main; main()"


@dataclass
class Child:
    """A process with a task, and what it has said so far."""

    work: Sequence[str]
    hash_seed: str = "0"
    results: list[Result] = field(default_factory=list)
    rows: dict[str, Any] | None = None
    subject: dict[str, Any] | None = None
    bad: str | None = None
    done: bool = False
    garbled: bool = False  # it said what is no event
    check: str = ""  # under way
    scenario: str = ""
    content: dict[str, Any] | None = None
    files: frozenset[str] = frozenset()  # of the policy
    process: subprocess.Popen[str] | None = None
    errors: IO[str] | None = None

    def heard(self, event: dict[str, Any]) -> None:
        """One of its events."""
        if "result" in event:
            self.results.append(Result.from_plain(event["result"]))
        self.check = event.get("begin", self.check)
        self.scenario = event.get("scenario", self.scenario)
        for name in ("rows", "subject", "bad", "done", "content"):
            if name in event:
                setattr(self, name, event[name])

    def ended(self, limit_s: float) -> None:
        """The process is over: if not by its own will, that is a failure of the check under way."""
        if self.done or self.bad is not None:
            return
        assert self.process is not None and self.errors is not None
        self.errors.seek(0)
        text = self.errors.read()
        hung = where_it_hung(text, self.files)
        if self.garbled:
            message = "it writes to a file descriptor that is not its own"
        elif hung is not None:
            message = f"it does not come back: after {limit_s:g} s it was {hung}"
        else:
            last = text.strip().splitlines()[-1:] or ["something in it leaves the process, or fills all memory"]
            message = f"the process ended in the middle of it, with status {self.process.returncode}: {last[0][:300]}"
        result = Result(self.check or "source")
        result.fail(message, self.scenario or None, self.content)
        self.results.append(result)


def run(
    children: list[Child],
    subject: Subject,
    quick: bool,
    limit_s: float,
    files: frozenset[str] = frozenset(),
    tell: Callable[[Child], None] | None = None,
) -> None:
    """Runs all to their ends, as many at once as there are cores; none of them outlives this call."""
    events: queue.Queue[tuple[Child, dict[str, Any] | None]] = queue.Queue()
    waiting, running = list(children), 0
    try:
        while waiting or running:
            while waiting and running < max(1, os.cpu_count() or 1):
                _start(waiting.pop(0), subject, quick, limit_s, files, events)
                running += 1
            try:
                child, event = events.get(timeout=limit_s + GRACE_S)
            except queue.Empty:  # not a word from any of them: not even their watchdogs work
                for child in children:
                    _kill(child)
                continue
            if event is None:
                running -= 1
                _kill(child, patience_s=0.0 if child.garbled else END_S)
                child.ended(limit_s)
                continue
            child.heard(event)
            if tell is not None:
                tell(child)
    finally:
        for child in children:
            _kill(child)
            if child.errors is not None:
                child.errors.close()


def _start(
    child: Child, subject: Subject, quick: bool, limit_s: float, files: frozenset[str], events: queue.Queue[Any]
) -> None:
    child.files = files
    child.errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
    child.process = subprocess.Popen(
        [sys.executable, "-c", START.format(path=sys.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=child.errors, text=True, start_new_session=True,
        env={**os.environ, "PYTHONHASHSEED": child.hash_seed},
    )  # fmt: skip
    task = {"work": child.work, "subject": asdict(subject), "quick": quick, "limit_s": limit_s}
    assert child.process.stdin is not None
    child.process.stdin.write(json.dumps(task) + "\n")
    child.process.stdin.close()
    threading.Thread(target=_read, args=(child, events), daemon=True).start()


def _read(child: Child, events: queue.Queue[Any]) -> None:
    """To its last event: processes that the policy has started may hold the pipe open for longer."""
    assert child.process is not None and child.process.stdout is not None
    for line in child.process.stdout:
        try:
            event = json.loads(line)
            is_last = "done" in event or "bad" in event
            events.put((child, dict(event)))
        except (ValueError, TypeError):
            child.garbled = is_last = True
        if is_last:
            break
    events.put((child, None))


def _kill(child: Child, patience_s: float = 0.0) -> None:
    """End it, with all that it has started; it may take so long to do so itself."""
    if child.process is None or child.process.returncode is not None:
        return
    with suppress(subprocess.TimeoutExpired):
        child.process.wait(patience_s)
    with suppress(ProcessLookupError):
        os.killpg(child.process.pid, signal.SIGKILL)
    child.process.wait()
