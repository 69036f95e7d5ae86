"""The whole check of a policy: the processes in which it runs, and what came of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twin.check import determinism
from twin.check.checks import ABOUT
from twin.check.children import Child, run
from twin.check.result import NOT_RUN, PASSED, Failure, Result
from twin.check.subject import Subject
from twin.policy_sources import source

LIMIT_S = 20.0  # of real time, for one scenario: they take a fraction of a second
MAIN = ("source", "adversarial", "random systems", "hidden lengths", "steady overload")
Show = Callable[[str, str], None]  # check, scenario


class BadPolicy(ValueError):
    """The policy cannot be had, or made with these options: one line that says why."""


@dataclass
class Report:
    """What the checks say of a policy."""

    subject: dict[str, Any]  # who was checked: name, class, file, hash, parameters, parts
    results: dict[str, Result] = field(default_factory=dict)  # by check; one that is not here was not run

    @property
    def passed(self) -> bool:
        return all(self.verdict(check) == PASSED for check in ABOUT)

    def verdict(self, check: str) -> str:
        return self.results[check].verdict if check in self.results else NOT_RUN

    @property
    def failures(self) -> list[tuple[str, Failure]]:
        """(check, failure), each kind once."""
        said: dict[str, tuple[str, Failure]] = {}
        for check in ABOUT:
            for failure in self.results[check].failures if check in self.results else ():
                said.setdefault(failure.kind, (check, failure))
        return list(said.values())

    @property
    def findings(self) -> list[str]:
        return list(dict.fromkeys(finding for result in self.results.values() for finding in result.findings))


def check_policy(subject: Subject, quick: bool = False, limit_s: float = LIMIT_S, show: Show | None = None) -> Report:
    """Checks it in processes of its own; raises `BadPolicy` when it cannot be had at all."""
    place = source(subject.name, subject.policy_path)
    files = frozenset({str(place.file)}) if place.file is not None else frozenset()
    main, repeated = Child(["load", *MAIN, "cost"]), Child(["repeated in a process"], determinism.HASH_SEEDS[0])
    others = [Child(["rows"], seed) for seed in determinism.HASH_SEEDS[1 : 2 if quick else None]]

    def tell(child: Child) -> None:
        _refuse(child)
        if show is not None:
            show(child.check, child.scenario)

    run([main, repeated, *others], subject, quick, limit_s, files, tell)
    if main.subject is None:  # it reads the clock as it is imported, or never comes back from it
        return Report({"policy": subject.name}, {"source": _before_there_was_one(main)})
    report = Report(main.subject, {result.check: result for result in (*main.results, *repeated.results)})
    logs = [(f"PYTHONHASHSEED={child.hash_seed}", child.rows) for child in (repeated, *others) if child.rows is not None]
    if len(logs) == len(others) + 1:
        report.results["other processes"] = determinism.compared(logs)
    return report


def _refuse(child: Child) -> None:
    """Raises as soon as it is known that there is nothing to check."""
    if child.bad is not None:
        raise BadPolicy(child.bad)
    about = child.subject
    if about is not None and about["needs_prediction"] and not about["predicts"]:
        who = about["needs_prediction"][0]
        raise BadPolicy(f"{who} needs predicted output lengths: choose a predictor, predictor=oracle")


def _before_there_was_one(child: Child) -> Result:
    result = Result("source")
    for known in child.results:
        for failure in known.failures:
            result.fail(failure.message)
    return result
