"""The two checks that play many small scenarios: those that somebody thought of, and random systems."""

from __future__ import annotations

from twin.check.adversarial import all_scenarios
from twin.check.playing import judge
from twin.check.result import Result, Tell
from twin.check.subject import Subject
from twin.check.systems import random_system

SYSTEMS, QUICK_SYSTEMS = 40, 10


def adversarial(subject: Subject, quick: bool, tell: Tell) -> Result:
    """Scenarios of docs/check.md; the quick check plays every third."""
    result = Result("adversarial")
    for place, (name, content) in enumerate(all_scenarios()):
        if result.full or (quick and place % 3):
            continue
        content = subject.adapted(content)
        tell(name, content)
        judge(subject, name, content, result)
    return result


def random_systems(subject: Subject, quick: bool, tell: Tell) -> Result:
    """Random systems, the same ones for every policy."""
    result = Result("random systems")
    for number in range(QUICK_SYSTEMS if quick else SYSTEMS):
        if result.full:
            break
        name = f"random-{number}"
        content = subject.adapted(random_system(name))
        tell(name, content)
        judge(subject, name, content, result)
    return result
