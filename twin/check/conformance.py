"""The whole check of a policy: three rounds of processes, and what came of them."""

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
    tell = None if show is None else lambda child: show(child.check, child.scenario)
    files = frozenset(str(place.file) for place in (source(subject.name, subject.policy_path),) if place.file is not None)

    loading = Child(["load"])
    run([loading], subject, quick, limit_s, files, tell)
    if loading.bad is not None:
        raise BadPolicy(loading.bad)
    if loading.subject is None:  # it reads the clock as it is imported, or never comes back from it
        return Report({"policy": subject.name}, {"source": _as_source(loading)})
    report = Report(loading.subject)
    if report.subject["needs_prediction"] and not report.subject["predicts"]:
        who = report.subject["needs_prediction"][0]
        raise BadPolicy(f"{who} needs predicted output lengths: choose a predictor, predictor=oracle")
    files |= frozenset(report.subject["files"])

    main, repeated = Child(MAIN), Child(["repeated in a process"], determinism.HASH_SEEDS[0])
    others = [Child(["rows"], seed) for seed in determinism.HASH_SEEDS[1 : 2 if quick else None]]
    run([main, repeated, *others], subject, quick, limit_s, files, tell)
    for result in (*main.results, *repeated.results):
        report.results[result.check] = result
    logs = [(f"PYTHONHASHSEED={child.hash_seed}", child.rows) for child in (repeated, *others) if child.rows is not None]
    if len(logs) == len(others) + 1:
        report.results["other processes"] = determinism.compared(logs)

    if not report.failures:
        timing = Child(["cost"])
        run([timing], subject, quick, limit_s, files, tell)
        report.results |= {result.check: result for result in timing.results}
    return report


def _as_source(child: Child) -> Result:
    """What went wrong before there was a policy."""
    result = Result("source")
    for known in child.results:
        for failure in known.failures:
            result.fail(failure.message)
    return result
