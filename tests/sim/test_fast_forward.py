"""Four ways through a run, one outcome to the last bit: the definition walked literally, the usual step, stretches of steps
at once, and with every decision told."""

from typing import Any

from hypothesis import HealthCheck, given, settings

from tests.sim.cases import Case, cases, difference
from twin.sim.simulation import Outcome, Simulation


@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_every_way_through_a_run_has_the_same_outcome(case: Case) -> None:
    literal = Simulation(case.setup(), case.trace, step_by_step=True, literal=True).run()
    usual = Simulation(case.setup(), case.trace, step_by_step=True).run()
    forward = Simulation(case.setup(), case.trace).run()
    assert (difference(literal, usual), difference(usual, forward)) == (None, None)
    told: list[dict[str, Any]] = []
    assert difference(Simulation(case.setup(), case.trace, decisions=told.append).run(), forward) is None
    assert len(told) == forward.counters["steps"]
    assert_every_request_got_its_tokens(case, forward)


def assert_every_request_got_its_tokens(case: Case, outcome: Outcome) -> None:
    """Nobody starves, and nothing is lost or invented by preemption, swapping, forking or fast-forward."""
    requests = outcome.requests
    yielded = sequences = 0
    for row, status in enumerate(requests["status"]):
        assert status in ("finished", "rejected") or (status == "aborted" and case.trace.abort_s is not None)
        if status == "finished":
            assert requests["generated_tokens"][row] == case.generated(row)
            yielded += case.generated(row)
            sequences += case.samples(row)
    if case.trace.abort_s is None:  # every token but a sequence's first came some time after its forerunner
        assert outcome.itl_count.sum() == yielded - sequences
