"""Policies that are as they should be pass; what a user should know of them is a finding."""

import pytest

from twin.check import cost, lengths, pressure, source, stream
from twin.check.result import Result
from twin.check.subject import Subject

SHIPPED = [("fcfs", "none"), ("priority", "none"), ("prefill_first", "none"), ("sarathi", "none"), ("orca", "none"),
           ("static", "none"), ("srpt", "oracle")]  # fmt: skip


def untold(scenario: str, content: object = None) -> None:
    """Nobody listens to what begins."""


@pytest.mark.parametrize("name, predictor", SHIPPED)
def test_a_shipped_policy_passes(name: str, predictor: str):
    subject = Subject(name, predictor={"name": predictor})
    for check in (source.check, pressure.adversarial, pressure.random_systems, lengths.check, stream.check):
        result = check(subject, True, untold)
        assert [failure.text() for failure in result.failures] == [], result.check
        assert result.cases > 0


def test_parts_are_checked_with_the_policy():
    subject = Subject("fcfs", options={"victim": "longest", "preemption_mode": "swap"})
    result = pressure.adversarial(subject, True, untold)
    assert result.verdict == "passed"
    assert {"policies/longest.py", "policies/fcfs.py"} <= {"/".join(file.split("/")[-2:]) for file in subject.files}


def test_first_come_first_served_starves_nobody():
    result = stream.check(Subject("fcfs"), True, untold)
    assert result.findings == []


def test_shortest_remaining_first_starves_the_long_ones_which_is_a_finding_and_no_failure():
    result = stream.check(Subject("srpt", predictor={"name": "oracle"}), True, untold)
    (finding,) = result.findings
    assert result.verdict == "passed"
    assert finding.startswith("starvation: the longest wait was ") and "of request long" in finding
    assert finding.endswith("it had to wait for the end of the stream")


def test_a_wait_is_the_time_without_a_part_in_a_step():
    requests = {
        "request_id": ["A", "B"], "status": ["finished", "finished"], "arrival_s": [0.0, 0.5], "finish_s": [3.0, 4.0],
    }  # fmt: skip
    steps = [{"start_s": time_s, "end_s": time_s + 1.0, "scheduled": {name: 1}} for time_s, name in enumerate("AAAB")]
    assert stream.waits(requests, steps) == {"A": 0.0, "B": 2.5}


def test_the_cost_is_told_and_never_a_failure():
    result = cost.check(Subject("fcfs"), True, untold)
    assert result.verdict == "passed"
    plan, event = result.notes
    assert " us a plan at 128 running (fcfs: " in plan
    assert " us an event with 10 waiting, " in event and " us with 10,000: " in event


def test_the_same_mistake_in_two_states_is_one_failure():
    result = Result("adversarial")
    state = "policy X, plan {} at 1 s, 2 running, 0 waiting, 0 swapped, {} of 4 blocks free: "
    result.fail(state.format(1, 0) + "chunk() gave request r1 3 tokens of 2 on offer", "a")
    result.fail(state.format(7, 2) + "chunk() gave request r9 5 tokens of 4 on offer", "b")
    result.fail(state.format(7, 2) + "victim() chose <request r04>, which is not one of the running requests", "c")
    assert [failure.scenario for failure in result.failures] == ["a", "c"]
