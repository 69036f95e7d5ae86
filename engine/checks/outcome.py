"""What came of one check."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import NamedTuple

from engine.checks.case import Wrong
from engine.errors import EngineError

PASSED, FAILED, NOT_HERE = "passed", "failed", "not here"


class Measured(NamedTuple):
    """How far off a computation was, and how far it may be; None where bits are compared."""

    error: float | None = None
    tolerance: float | None = None


class Outcome(NamedTuple):
    device: str
    what: str
    about: str  # sizes, dtypes, numbers of cases
    verdict: str
    measured: Measured
    seconds: float
    why: str = ""  # not passed


def judged(
    device: str, what: str, about: str, check: Callable[[], Measured], clock: Callable[[], float] = time.perf_counter
) -> Outcome:
    """Carries out a check. One that this machine cannot make is not here; one that breaks down has failed."""
    began_s = clock()
    try:
        measured, verdict, why = check(), PASSED, ""
    except EngineError as error:
        measured, verdict, why = Measured(), NOT_HERE, str(error)
    except breakdowns() as error:
        measured, verdict, why = (
            Measured(),
            FAILED,
            f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
        )
    except Wrong as wrong:
        measured, verdict, why = Measured(), FAILED, str(wrong)
    return Outcome(device, what, about, verdict, measured, clock() - began_s, why)


def breakdowns() -> tuple[type[Exception], ...]:
    """What kernels raise that do not work on a device: torch and drivers a RuntimeError, Triton's compiler its own."""
    if importlib.util.find_spec("triton") is None:
        return (RuntimeError,)
    from triton.errors import TritonError

    return (RuntimeError, TritonError)


def worst(errors: list[Measured]) -> Measured:
    """The one that used up most of its tolerance."""
    return max(errors, key=lambda each: (each.error or 0.0) / (each.tolerance or 1.0))
