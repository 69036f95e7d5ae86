"""How a check is judged."""

import pytest
from triton.errors import TritonError

from engine.checks.case import Wrong
from engine.checks.outcome import FAILED, NOT_HERE, PASSED, Measured, judged, worst
from engine.errors import EngineError, StepFailure


def judge(check):
    readings = iter([10.0, 12.5])
    return judged("cpu", "a check", "fp32", check, lambda: next(readings))


def raising(error: Exception):
    def check():
        raise error

    return check


def test_passed():
    outcome = judge(lambda: Measured(1e-6, 1e-5))
    assert outcome == ("cpu", "a check", "fp32", PASSED, Measured(1e-6, 1e-5), 2.5, "")


@pytest.mark.parametrize(
    "error, verdict, why",
    [
        (Wrong("off by 3"), FAILED, "off by 3"),
        (EngineError("no nvcc"), NOT_HERE, "no nvcc"),
        (StepFailure("illegal address"), FAILED, "StepFailure: illegal address"),
        (RuntimeError(), FAILED, "RuntimeError"),
        (TritonError("does not compile"), FAILED, "TritonError: does not compile"),
    ],
)
def test_not_passed(error: Exception, verdict: str, why: str):
    outcome = judge(raising(error))
    assert (outcome.verdict, outcome.why, outcome.measured, outcome.seconds) == (verdict, why, Measured(), 2.5)


def test_a_mistake_of_the_check_itself_is_not_a_verdict():
    with pytest.raises(TypeError):
        judge(raising(TypeError("a typo")))


def test_the_worst_is_the_one_that_used_up_most_of_its_tolerance():
    errors = [Measured(1e-3, 2e-2), Measured(1e-5, 2e-5), Measured(0.0, 1.0)]
    assert worst(errors) == errors[1]
