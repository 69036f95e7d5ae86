"""What a check has to say: a verdict, failures that a user understands, findings that are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Tell = Callable[..., None]  # told each scenario as it begins: its name, and its content if it has one
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
MOST_FAILURES = 3  # of one check: more of them say nothing new


@dataclass
class Failure:
    """Something that a policy may not do, and where it did it."""

    message: str
    scenario: str | None = None  # its name
    content: dict[str, Any] | None = None  # ... and all of it, for a file that `twin scenario` plays

    @property
    def kind(self) -> str:
        """What is wrong, without the state in which it was: the same mistake shows in many scenarios."""
        state = re.search(r" blocks free(, the head of the queue is .*? tokens)?: ", self.message)
        rule = (self.message[state.end() :] if state else self.message).partition(";")[0]
        return re.sub(r"\S*\d\S*|<.*?>|None", "#", rule)

    def text(self) -> str:
        """The failure in one sentence."""
        return self.message if self.scenario is None else f"scenario {self.scenario}: {self.message}"


@dataclass
class Result:
    """The outcome of one check; `cases` are scenarios played."""

    check: str
    cases: int = 0
    failures: list[Failure] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)  # what a user should know; no failure
    notes: list[str] = field(default_factory=list)  # measurements: shown, never written
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        return FAILED if self.failures else PASSED

    @property
    def full(self) -> bool:
        """Enough has gone wrong."""
        return len(self.failures) >= MOST_FAILURES

    def fail(self, message: str, scenario: str | None = None, content: dict[str, Any] | None = None) -> None:
        """One more failure, unless one of its kind was said already."""
        new = Failure(message, scenario, content)
        if all(new.kind != known.kind for known in self.failures):
            self.failures.append(new)

    def find(self, finding: str) -> None:
        """One more finding, unless it was said already."""
        if finding not in self.findings:
            self.findings.append(finding)

    @staticmethod
    def from_plain(values: dict[str, Any]) -> Result:
        """What another process made plain with `asdict`."""
        failures = [Failure(**failure) for failure in values["failures"]]
        return Result(**{**values, "failures": failures})
