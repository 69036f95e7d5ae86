"""`twin check`: what must hold of any policy, tried out; a certificate for the one that passes."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin import __version__
from twin.cli.compose import Composed, compose
from twin.cli.errors import UserError, naming, one_line
from twin.cli.helptext import help_text, wants_help
from twin.cli.options import check_options, is_number
from twin.cli.quoting import key_of
from twin.cli.streams import complain

if TYPE_CHECKING:
    from twin.check.conformance import Report
    from twin.check.subject import Subject

DOES = """Tries a policy out: random systems under pressure, adversarial scenarios, liveness, determinism, no clock, no true
output length, cost. One that passes gets a certificate, without which the engine does not run it (docs/check.md).

options of its own
  check.quick=false   true: fewer scenarios, a look in between; no certificate is written
  check.limit_s=20    seconds of real time that a single scenario may take before the policy counts as hung"""
EXAMPLE = "python -m twin check policy=fcfs"
OWN = {"check.quick": "false", "check.limit_s": "20"}
SECTIONS = ("policy", "policy_path", "predictor")
PASSED, FAILED = 0, 1
FAILING = Path("outputs") / "check"  # scenarios that failed, by policy


def main(words: list[str]) -> int:
    """Checks one policy; returns the exit status."""
    own = [word for word in words if key_of(word) in OWN]
    rest = [word for word in words if word not in own]
    if wants_help(rest):
        print(help_text("check", DOES, EXAMPLE, rest, SECTIONS), end="")
        return PASSED
    quick, limit_s = _own_options(own)
    for word in rest:
        if not word.startswith("-") and (key_of(word) or word).partition(".")[0].lstrip("+~") not in SECTIONS:
            there = ", ".join([*SECTIONS, *OWN])
            raise UserError(f"{word}: twin check makes its own systems and takes {there}")
    composed = compose(rest)
    check_options(composed.values)
    subject = _subject(composed)
    return _checked(subject, quick, limit_s)


def _checked(subject: "Subject", quick: bool, limit_s: float) -> int:
    from twin.check.conformance import BadPolicy, check_policy
    from twin.policy_parameters import PolicyFileError

    try:
        with _progress() as show:
            report = check_policy(subject, quick, limit_s, show)
    except (BadPolicy, PolicyFileError) as error:
        with naming("policy"):
            raise ValueError(str(error)) from error
    _print_table(report)
    if not report.passed:
        _print_failures(report, subject)
        return FAILED
    for finding in report.findings:
        print(f"finding: {finding}")
    print(_certified(report, subject, quick))
    return PASSED


def _certified(report: "Report", subject: "Subject", quick: bool) -> str:
    from twin.check.certificate import write

    name = report.subject["policy"]
    if quick:
        return f"{name} passed the quick check; without check.quick=true it gets its certificate"
    with naming("the certificate"):
        return f"{name} passed; certificate: {_near(write(report, subject, __version__))}"


def _print_table(report: "Report") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from twin.check.checks import ABOUT

    about = report.subject
    if "class" in about:
        print(f"{about['policy']}: {about['class']} of {_near(Path(about['file']))}, sha256 {about['sha256'][:12]}")
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for heading in ("check", "verdict", "scenarios", "seconds", ""):
        table.add_column(heading, justify="right" if heading in ("scenarios", "seconds") else "left", overflow="fold")
    styles = {"passed": "green", "failed": "bold red"}
    for check, words in ABOUT.items():
        verdict, result = report.verdict(check), report.results.get(check)
        cells = (str(result.cases), f"{result.seconds:.1f}") if result else ("", "")
        table.add_row(check, Text(verdict, style=styles.get(verdict, "dim")), *cells, Text(words, style="dim"))
    Console(highlight=False).print(table)
    for result in report.results.values():
        for note in result.notes:
            print(f"{result.check}: {note}")


def _print_failures(report: "Report", subject: "Subject") -> None:
    """Each in a line, and how to see it again."""
    from twin.check.scenario_text import write

    name = report.subject["policy"]
    sys.stdout.flush()
    for check, failure in report.failures:
        complain(f"twin check: policy={name} failed: {check}: {one_line(failure.text())}")
        if failure.content is None or failure.scenario is None:
            continue
        with naming(str(FAILING)):
            path = write(FAILING / name, failure.scenario, failure.content, failure.message)
        where = "" if subject.policy_path is None else f" policy_path={subject.policy_path}"
        complain(f"  play it again: python -m twin scenario {path}{where}")


def _own_options(words: list[str]) -> tuple[bool, float]:
    given = OWN | {str(key_of(word)): word.partition("=")[2] for word in words}
    if given["check.quick"] not in ("true", "false"):
        raise UserError(f"check.quick={given['check.quick']}: must be true or false")
    try:
        limit_s = float(given["check.limit_s"])
    except ValueError:
        limit_s = 0.0
    if not is_number(limit_s) or not 0 < limit_s <= 3600:
        raise UserError(f"check.limit_s={given['check.limit_s']}: must be seconds, above 0 and at most 3600")
    return given["check.quick"] == "true", limit_s


def _subject(composed: Composed) -> "Subject":
    from twin.check.subject import Subject

    values = composed.values
    options = {key: value for key, value in values["policy"].items() if key != "name" and composed.given(f"policy.{key}")}
    return Subject(values["policy"]["name"], options, values["policy_path"], dict(values["predictor"]))


def _near(path: Path) -> Path:
    """As it is called from here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _progress() -> Any:
    """What is under way, in one line of a terminal that is wiped at the end."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return _Status(Console(stderr=True))


class _Status:
    def __init__(self, console: Any) -> None:
        self.status = console.status("starting")

    def __enter__(self) -> Any:
        self.status.start()
        return lambda check, scenario: self.status.update(f"{check}: {scenario}")

    def __exit__(self, *_: object) -> None:
        self.status.stop()
