"""The process in which the code of a policy's author runs: it may hang, print, or end the process, and no harm is done.

Reads a task from standard input, writes events to what was standard output, a JSON line each:

    {"begin": "adversarial"}            a check begins
    {"scenario": "a burst", "content": {...}}   ... and a scenario of it
    {"result": {...}}                   its result
    {"subject": {...}}                  who is checked (task "load")
    {"rows": {...}}                     what was decided (determinism)
    {"bad": "..."}                      the policy cannot be had: bad input
    {"done": true}

A scenario that takes longer than the limit ends the process with faulthandler's dump of where it was.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from dataclasses import asdict
from time import perf_counter
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from twin.check.subject import Subject

MOST_MEMORY = 8 << 30  # bytes: a policy that fills all memory is told so rather than the machine brought down


def main() -> None:
    """Does the task that standard input tells."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the policy prints must not be read as events
    os.register_at_fork(after_in_child=lambda: os._exit(1))  # a copy would say everything a second time
    _limit_memory()
    Worker(json.loads(sys.stdin.readline()), events).work()
    sys.stderr.flush()
    os._exit(0)  # threads that the policy has begun are not waited for


class Worker:
    """One task: `{"work": [names of checks], "subject": {...}, "quick": bool, "limit_s": seconds}`."""

    def __init__(self, task: dict[str, Any], events: TextIO) -> None:
        from twin.check.subject import Subject

        self.task, self.events = task, events
        self.subject = Subject(**task["subject"])
        self.failed = False

    def work(self) -> None:
        from twin.check.watch import Watch

        try:
            with Watch(_folders(self.subject)).on() as watch:
                self.tell("import")
                try:
                    watch.folders |= {os.path.dirname(file) for file in self.subject.files}
                    self.subject.make_predictor()
                except ValueError as error:
                    if not watch.seen:
                        self.say(bad=str(error))
                        return
                    self._refused(watch.seen)  # at the top of the file, or in its constructor
                    return
                for name in self.task["work"]:
                    if name != "cost" or not self.failed:  # nobody asks what a broken one costs
                        self.say(begin=name)
                        self._check(name, watch)
        finally:
            faulthandler.cancel_dump_traceback_later()
        self.say(done=True)

    def _check(self, name: str, watch: Any) -> None:
        from twin.check.checks import CHECKS

        started = perf_counter()
        result = CHECKS[name](self.subject, self.task["quick"], self.tell, self.say)
        if result is not None:
            for message in dict.fromkeys(watch.seen):
                if all(message not in failure.message for failure in result.failures):
                    result.fail(message)  # it swallowed the exception
            watch.seen.clear()
            self.failed |= bool(result.failures)
            result.seconds = perf_counter() - started
            for failure in result.failures:
                if failure.content is not None:
                    failure.content = self.subject.content(failure.content)
            self.say(result=asdict(result))

    def _refused(self, seen: list[str]) -> None:
        from twin.check.result import Result

        result = Result("source")
        for message in seen:
            result.fail(message)
        self.say(result=asdict(result))
        self.say(done=True)

    def tell(self, scenario: str, content: dict[str, Any] | None = None) -> None:
        """A scenario begins: the watchdog starts anew."""
        self.say(scenario=scenario, content=None if content is None else self.subject.content(content))
        faulthandler.dump_traceback_later(self.task["limit_s"], exit=True)

    def say(self, **event: Any) -> None:
        self.events.write(json.dumps(event) + "\n")


def _folders(subject: Subject) -> set[str]:
    from twin.policy_sources import BUILT_IN, folders, source

    try:
        file = source(subject.name, subject.policy_path).file
        own = set() if file is None else {str(file.parent)}
        return own | {str(folder) for folder in folders(subject.policy_path)}
    except ValueError:  # it will be said when the policy is looked for
        return {str(BUILT_IN)}


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    except (ImportError, ValueError, OSError):  # not on this system, or a lower limit is set
        pass
