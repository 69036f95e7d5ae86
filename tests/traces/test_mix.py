"""Several traces as one: shares, rates, and whose content is whose."""

from collections import Counter

import numpy as np
import pytest

from traces import Prefix, Trace, open_trace
from traces.statistics import fano
from traces.transforms.mix import labelled, mixed


def part(name: str, count: int, gap_s: float, tokens: int, **columns) -> Trace:
    return Trace(name, np.arange(count) * gap_s, np.full(count, tokens), np.full(count, 3), **columns)


def test_shares_are_the_weights_and_the_rates_add_up():
    trace = mixed([part("a", 300, 0.5, 10), part("b", 100, 2.0, 20)], [3, 1])
    counts = Counter(trace.prompt_tokens.tolist())
    assert counts == {10: 300, 20: 100}
    assert len(trace) / trace.arrival_s[-1] == pytest.approx(2 + 0.5, rel=0.02)
    assert np.all(np.diff(trace.arrival_s) >= 0)
    assert trace.report.notes[0] == "requests: 300 of a (0.75), 100 of b (0.25), 2.5 requests/s together"


def test_the_mix_ends_with_its_shortest_part_and_has_the_rate_asked_for():
    trace = mixed([part("a", 1000, 1, 10), part("b", 30, 1, 20)], [9, 1], rate=4)
    assert Counter(trace.prompt_tokens.tolist()) == {10: 270, 20: 30}
    assert len(trace) / trace.arrival_s[-1] == pytest.approx(4, rel=0.05)


def test_names_and_gaps_in_columns():
    one = part("a", 2, 1, 10, user=["x", ""], priority=np.array([5, 6]))
    two = part("a", 2, 1, 20, deadline_s=np.array([8.0, 9.0]))
    trace = mixed([one, two], [1, 1])
    assert trace.user == ["a1/x", "", "", ""] and sorted(trace.priority.tolist()) == [0, 0, 5, 6]
    assert np.count_nonzero(np.isnan(trace.deadline_s)) == 2 and trace.request_id is None
    assert labelled(["a", "b", "a"]) == ["a1", "b", "a2"]


def test_content_is_shared_within_a_part_at_any_block_size_and_never_between():
    coarse = part("c", 2, 1, 1100, prefix=Prefix.of([[1, 2, 3], [1, 2, 4]], [1100, 1100], 512))
    fine = part("f", 2, 1, 100, prefix=Prefix.of([[1, 2, 3, 4, 5, 6, 7]] * 2, [100, 100], 16))
    without = part("w", 2, 1, 7)
    trace = mixed([coarse, fine, without], [1, 1, 1])
    assert trace.prefix.hash_block_tokens == 16
    shared = dict(zip(trace.prompt_tokens.tolist(), trace.prefix.shareable_tokens().tolist(), strict=True))
    assert shared == {1100: 1024, 100: 96, 7: 0}  # whole blocks, as each part for itself


def test_the_burstiness_of_a_part_stays_in_the_mix():
    parts = [{"name": "chat", "weight": 9}, {"name": "synthetic", "arrivals": "poisson(1)"}]
    trace = open_trace("mix", parts=parts, num_requests=20_000, seed=1)
    assert fano(trace.arrival_s, 60) > 4  # 1 for Poisson


def test_a_mix_from_the_entry():
    parts = [
        {"name": "chat", "weight": 3, "priority": 1},
        {"name": "synthetic", "prompt_tokens": 77, "arrivals": "constant(5)"},
    ]
    trace = open_trace("mix", parts=parts, rate=8, num_requests=400, users="uniform(1,3)")
    assert len(trace) == 400 and np.count_nonzero(trace.prompt_tokens == 77) == pytest.approx(100, abs=3)
    assert (len(trace) - 1) / trace.arrival_s[-1] == pytest.approx(8)
    assert set(trace.user) == {"user1", "user2", "user3"} and set(trace.priority.tolist()) == {0, 1}
    again = open_trace("mix", parts=parts, rate=8, num_requests=400, users="uniform(1,3)")
    assert again.arrival_s.tolist() == trace.arrival_s.tolist()
    assert open_trace("mix", parts=parts, duration_s=50).arrival_s[-1] < 50


def test_two_equal_parts_are_not_the_same_requests():
    trace = open_trace("mix", parts=[{"name": "chat"}, {"name": "chat"}], num_requests=200)
    twice = [time for time, count in Counter(trace.arrival_s.tolist()).items() if count > 1]
    assert twice in ([0.0], [0.0, trace.arrival_s[-1]])  # both start at 0 and last as long, and nothing else coincides


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "trace=mix needs trace.parts, e.g. [{name: chat, weight: 3}"),
        ({"parts": []}, "needs trace.parts"),
        ({"parts": ["chat"]}, "each part has a name and a weight"),
        ({"parts": [{"name": "chat", "weight": 0}]}, "the weight of chat is 0"),
        ({"parts": [{"name": "chat", "rate": 3}]}, "rate is not an option of a part, but of the whole mix"),
        ({"parts": [{"name": "chatt"}]}, "there is no trace 'chatt'"),
        ({"parts": [{"name": "chat"}], "arrivals": "poisson(1)"}, "trace=mix has no option trace.arrivals"),
        ({"parts": [{"name": "synthetic", "arrivals": "burst()"}]}, "all at once"),
        ({"parts": [{"name": "synthetic", "arrivals": "closed(3)"}]}, "does not go with closed"),
    ],
)
def test_what_makes_no_mix_is_refused_in_one_line(options, problem):
    with pytest.raises(ValueError) as caught:
        open_trace("mix", num_requests=10, **options)
    assert problem in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="trace=chat has no parts"):
        open_trace("chat", parts=[{"name": "chat"}])
