"""The process of vLLM, from outside: started, given orders, waited for with a time limit, and ended, whatever happens."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from twin.cli.errors import one_line

LOOK_S = 0.2  # how often it is looked whether the process still lives
GRACE_S = 10.0  # for an orderly end
TAIL = 200  # lines of the log that are looked at for a reason
ERROR = re.compile(r"\b\w*(?:Error|Exception|Refused): .+")
CONSEQUENCE = "See root cause above"
MOST_OF_A_REASON = 300  # characters


class VllmFailed(RuntimeError):
    """vLLM did not start, died, or did not answer in time; one line, with the place of its log."""


class VllmProcess:
    """A context: the process, and all that it has started, is gone when it ends."""

    def __init__(self, python: str, job: dict[str, Any], job_file: Path, environment: dict[str, str], log: Path) -> None:
        self.python, self.job, self.job_file, self.environment, self.log = python, job, job_file, environment, log
        self.doing = "starting"
        self.rest = b""

    def __enter__(self) -> VllmProcess:
        self.events, write = os.pipe()
        self.job_file.write_text(json.dumps(self.job | {"events": write}), encoding="utf-8")
        try:
            with self.log.open("wb") as log:
                self.process = subprocess.Popen(
                    [self.python, "-m", "engine.ground_truth.live.child", str(self.job_file)],
                    stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=(write,), env=self.environment,
                    start_new_session=True,  # Ctrl-C is ours to pass on, and all that it starts can be ended at once
                )  # fmt: skip
        except BaseException:
            os.close(self.events)
            raise
        finally:
            os.close(write)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None and self.process.poll() is None:
                self._send({"quit": True})
                self.process.wait(GRACE_S)
        except (OSError, subprocess.TimeoutExpired):
            pass  # it is ended below
        finally:
            self._kill()
            os.close(self.events)

    def _kill(self) -> None:
        """The whole session: vLLM's engine is a process of its own."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except OSError:
                pass  # nobody reads any more
        self.process.wait()

    def wait_ready(self, seconds: float) -> dict[str, Any]:
        """Its versions."""
        ready: dict[str, Any] = self._event(seconds)["ready"]
        return ready

    def play(self, order: dict[str, Any], seconds: float) -> None:
        """One run, to its end. Raises VllmFailed."""
        self.doing = f"playing {order['play']}"
        try:
            self._send(order)
        except OSError:
            raise self._failure() from None
        self._event(seconds)

    def _send(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()

    def _event(self, seconds: float) -> dict[str, Any]:
        """The next one. Raises VllmFailed when the process ends before it comes, or the time is over."""
        until_s = time.monotonic() + seconds
        while b"\n" not in self.rest:
            readable, _, _ = select.select([self.events], [], [], LOOK_S)
            if readable:
                more = os.read(self.events, 1 << 16)
                self.rest += more
                if more:
                    continue
            if self.process.poll() is not None or readable:  # the pipe has ended: so has the process, or will
                raise self._failure()
            if time.monotonic() > until_s:
                raise VllmFailed(f"vLLM was {self.doing} for more than {seconds:g} s, and was ended; its log: {self.log}")
        line, _, self.rest = self.rest.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    def _failure(self) -> VllmFailed:
        try:
            status = f"status {self.process.wait(GRACE_S)}"
        except subprocess.TimeoutExpired:
            status = "its engine still runs"
        return VllmFailed(f"vLLM ended ({status}) while {self.doing}: {reason(self.log)}; its log: {self.log}")


def reason(log: Path) -> str:
    """Most likely why: the last error in the log that is not one of another process's end, else the last line."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [found[0] for line in lines[-TAIL:] if (found := ERROR.search(line)) is not None and CONSEQUENCE not in line]
    return one_line((errors or lines or ["it said nothing"])[-1], MOST_OF_A_REASON)
