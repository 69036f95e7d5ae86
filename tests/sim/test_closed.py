"""Who arrives when another ends: closed loops, and sessions turn by turn. And when an arrival is seen."""

from dataclasses import replace

import numpy as np
import pytest

from policies.fcfs import Fcfs
from traces.trace import ClosedLoop, Trace
from twin.core import Limits
from twin.latency.linear import LinearLatency
from twin.sim import Outcome, Setup, simulate

NAN = float("nan")


def serve(trace: Trace, latency: LinearLatency, closed_sessions: bool = False, **limits: int) -> Outcome:
    return simulate(Setup(Limits(num_blocks=100_000, **limits), Fcfs(), latency, closed_sessions=closed_sessions), trace)


def test_a_closed_loop_of_64_users_in_closed_form() -> None:
    """th-10: a step of 64 sequences takes 10 + 0.4 * 64 = 35.6 ms, and there is no other: 64 / 0.0356 = 1797.75 tokens/s."""
    users, output, rounds = 64, 500, 3
    arrival_s = np.full(users * rounds, NAN)
    arrival_s[:users] = 0.0
    lengths = np.full(users * rounds, output)
    trace = Trace("closed", arrival_s, np.ones_like(lengths), lengths, closed=ClosedLoop(users))
    outcome = serve(trace, LinearLatency(base_s=0.010, per_seq_s=0.0004))
    requests = outcome.requests
    assert requests["status"] == ["finished"] * len(trace)
    assert outcome.counters["steps"] == output * rounds
    assert outcome.end_s == pytest.approx(output * rounds * 0.0356, rel=1e-12)
    assert lengths.sum() / outcome.end_s == pytest.approx(1797.7528089887642, rel=1e-12)
    tpot_s = (requests["finish_s"] - requests["first_token_s"]) / (output - 1)
    assert tpot_s == pytest.approx(np.full(len(trace), 0.0356), rel=1e-12)
    assert outcome.itl_s == pytest.approx(np.full(len(outcome.itl_s), 0.0356), rel=1e-10)
    assert requests["arrival_s"][users : 2 * users].tolist() == requests["finish_s"][:users].tolist()


def test_think_time_passes_between_an_end_and_the_next_arrival() -> None:
    trace = Trace("closed", np.array([0.0, NAN, NAN]), np.ones(3), np.full(3, 2), closed=ClosedLoop(1, think_s=0.5))
    requests = serve(trace, LinearLatency(base_s=1.0)).requests
    assert requests["arrival_s"].tolist() == [0.0, 2.5, 5.0]
    assert requests["finish_s"].tolist() == [2.0, 4.5, 7.0]


SESSION = Trace(
    "session", np.array([0.0, 1.0]), np.array([4, 4]), np.array([1, 1]), session=["s", "s"], think_s=np.array([0, 2.0])
)


def test_a_turn_follows_the_answer_before_it() -> None:
    """cli-05: turn 1 finishes at 7.3, thinking takes 2 s."""
    requests = serve(SESSION, LinearLatency(base_s=7.3), closed_sessions=True).requests
    assert requests["finish_s"][0] == 7.3
    assert requests["arrival_s"].tolist() == [0.0, 9.3]


def test_a_deadline_keeps_its_distance_from_the_arrival_that_came() -> None:
    """Recorded: arrival 1, due at 6, five seconds later; it arrives at 9.3."""
    due = replace(SESSION, deadline_s=np.array([np.nan, 6.0]))
    assert serve(due, LinearLatency(base_s=7.3)).requests["deadline_s"].tolist()[1] == 6.0
    closed = serve(due, LinearLatency(base_s=7.3), closed_sessions=True).requests["deadline_s"]
    assert np.isnan(closed[0]) and closed[1] == 9.3 + 5.0


def test_an_open_loop_keeps_the_arrivals_of_the_trace() -> None:
    """cli-05"""
    assert serve(SESSION, LinearLatency(base_s=7.3)).requests["arrival_s"].tolist() == [0.0, 1.0]


def test_sessions_do_not_wait_for_one_another() -> None:
    trace = Trace(
        "sessions", np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4), np.ones(4),
        session=["a", "b", "a", ""], think_s=np.array([0, 0, 3.0, 0]),
    )  # fmt: skip
    requests = serve(trace, LinearLatency(base_s=2.0), closed_sessions=True).requests
    assert requests["arrival_s"].tolist() == [0.0, 0.0, 5.0, 1.0]


def test_sessions_cannot_be_closed_without_that_column() -> None:
    trace = Trace("plain", np.zeros(1), np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="closed_sessions=true needs sessions, and trace plain has none"):
        serve(trace, LinearLatency(base_s=1.0), closed_sessions=True)


def test_arrivals_at_the_same_time_stand_in_the_order_of_the_trace() -> None:
    trace = Trace("equal", np.zeros(3), np.ones(3), np.ones(3), request_id=["c", "a", "b"])
    requests = serve(trace, LinearLatency(base_s=1.0), max_num_seqs=1).requests
    assert requests["finish_s"].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("late_s, scheduled_s", [(0.0, 1.0), (1e-9, 1.1)])
def test_an_arrival_at_the_end_of_a_step_up_to_rounding_is_seen_by_the_next(late_s: float, scheduled_s: float) -> None:
    """Ten steps of 0.1 s end at 0.9999999999999999."""
    assert sum([0.1] * 10) < 1.0
    trace = Trace("rounding", np.array([0.0, 1.0 + late_s]), np.ones(2), np.full(2, 12))
    requests = serve(trace, LinearLatency(base_s=0.1)).requests
    assert requests["first_scheduled_s"][1] == pytest.approx(scheduled_s, abs=1e-9)
    assert requests["first_scheduled_s"][1] >= requests["arrival_s"][1]


def test_an_idle_engine_begins_at_the_arrival_itself() -> None:
    arrival_s = np.array([0.3, 1 / 3 + 7, 1e6 / 7])
    requests = serve(Trace("idle", arrival_s, np.ones(3), np.ones(3)), LinearLatency(base_s=0.1)).requests
    assert requests["first_scheduled_s"].tolist() == arrival_s.tolist()
