"""The trace itself: its invariants, limits, rescaling."""

import numpy as np
import pytest

from traces import ClosedLoop, Prefix, Trace


def _make_trace(arrival_s=(0.0, 1.0, 4.0, 10.0), **columns):
    count = len(arrival_s)
    return Trace("t", np.array(arrival_s), np.full(count, 7), np.full(count, 3), **columns)


def test_rescaled_makes_the_mean_rate_of_n_minus_1_over_last_minus_first():
    trace = _make_trace().rescaled(0.6)  # 3 gaps in 10 s are 0.3 requests/s: twice as fast
    assert trace.arrival_s.tolist() == pytest.approx([0, 0.5, 2, 5])


def test_rescaled_keeps_the_distance_of_deadlines_and_aborts_from_the_arrival():
    trace = _make_trace(deadline_s=np.array([2, 3, 6, np.nan]), abort_s=np.array([np.nan, np.nan, np.nan, 10.5]))
    rescaled = trace.rescaled(0.6)
    assert rescaled.deadline_s[:3].tolist() == pytest.approx([2, 2.5, 4])
    assert np.isnan(rescaled.deadline_s[3])
    assert rescaled.abort_s[3] == pytest.approx(5.5)
    assert trace.arrival_s[3] == 10, "the trace itself is left as it was"


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_a_rate_that_is_no_rate_is_refused(rate):
    with pytest.raises(ValueError, match="trace.rate is"):
        _make_trace().rescaled(rate)


def test_rescaling_requests_that_all_arrive_at_once_is_refused():
    with pytest.raises(ValueError, match="arrive at once"):
        _make_trace((0.0, 0.0)).rescaled(5)


def test_limit_keeps_the_first_requests_and_what_arrives_before_the_duration():
    trace = _make_trace(request_id=["a", "b", "c", "d"])
    assert trace.limit(num_requests=2).request_id == ["a", "b"]
    assert trace.limit(duration_s=4).request_id == ["a", "b"], "an arrival at 4 s is not before 4 s"
    assert trace.limit(duration_s=4.001).request_id == ["a", "b", "c"]
    assert trace.limit(num_requests=99) is trace
    assert "the first 2 of 4" in trace.limit(2).report.lines()[-1]


def test_limit_takes_the_prefixes_along():
    content = Prefix.of([[1, 2], [1, 3], [1, 2], [1, 2]], [8, 8, 8, 8], 4)
    limited = _make_trace(prefix=content).limit(2)
    assert limited.prefix.shareable_tokens().tolist() == [4, 4]


@pytest.mark.parametrize(
    "columns, problem",
    [
        ({"arrival_s": (1.0, 0.0)}, "sorted"),
        ({"arrival_s": (-1.0, 0.0)}, "not negative"),
        ({"arrival_s": (0.0, float("nan"))}, "finite"),
        ({"arrival_s": ()}, "no requests"),
        ({"user": ["a"]}, "user has 1 entries"),
        ({"n": np.array([1, 0, 1, 1])}, "n is 0"),
    ],
)
def test_columns_that_make_no_trace_are_refused(columns, problem):
    with pytest.raises(ValueError, match=problem):
        _make_trace(**columns)


def test_a_closed_loop_knows_only_the_first_arrivals():
    trace = _make_trace((0.0, 0.0, np.nan, np.nan), closed=ClosedLoop(2))
    assert len(trace.limit(3)) == 3
    for change in (lambda: trace.rescaled(1), lambda: trace.limit(duration_s=1)):
        with pytest.raises(ValueError, match="closed"):
            change()


def test_ids_are_the_row_numbers_unless_given():
    assert _make_trace().ids() == ["0", "1", "2", "3"]
    assert _make_trace(request_id=list("wxyz")).ids() == list("wxyz")
