"""The checks by name, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Callable

from twin.check import cost, determinism, lengths, pressure, source, stream
from twin.check.result import Result, Tell
from twin.check.subject import Subject

Say = Callable[..., None]
ABOUT = {
    "source": "clock, chance, inside of views",
    "adversarial": "bursts, edges, aborts, swap",
    "random systems": "invariants, fast-forward",
    "hidden lengths": "no true output length",
    "steady overload": "who waits, and how long",
    "repeated in a process": "same decisions twice",
    "other processes": "same under any hash seed",
    "cost": "time a plan, a long queue",
}


def _load(subject: Subject, quick: bool, tell: Tell, say: Say) -> None:
    main, parts = subject.assembly.main, subject.assembly.parts
    say(
        subject={
            "policy": main.file.name, "class": main.file.policy.__name__, "file": str(main.file.file),
            "sha256": main.file.sha256, "parameters": main.parameters, "built_in": main.file.source.built_in,
            "needs_prediction": subject.needs_prediction, "files": sorted(subject.files),
            "predicts": subject.make_predictor().predicts,
            "parts": {role: {"policy": part.file.name, "sha256": part.file.sha256, "parameters": part.parameters}
                      for role, part in parts.items()},
        }
    )  # fmt: skip


def _repeated(subject: Subject, quick: bool, tell: Tell, say: Say) -> Result:
    result, rows = determinism.check(subject, quick, tell)
    say(rows=rows)
    return result


def _rows(subject: Subject, quick: bool, tell: Tell, say: Say) -> None:
    say(rows=determinism.rows(subject, quick, tell))


def _plain(check: Callable[[Subject, bool, Tell], Result]) -> Callable[..., Result]:
    return lambda subject, quick, tell, say: check(subject, quick, tell)


CHECKS: dict[str, Callable[[Subject, bool, Tell, Say], Result | None]] = {
    "load": _load,
    "source": _plain(source.check),
    "adversarial": _plain(pressure.adversarial),
    "random systems": _plain(pressure.random_systems),
    "hidden lengths": _plain(lengths.check),
    "steady overload": _plain(stream.check),
    "repeated in a process": _repeated,
    "rows": _rows,
    "cost": _plain(cost.check),
}
