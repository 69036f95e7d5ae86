"""timeline.json.gz: what Perfetto reads, by its rules."""

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from tests.results.records import NAN, queue, record, requests, two
from twin.results.timeline import absences, timeline_lines


def events(made, decisions=(), **limits) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    trace = json.loads("".join(timeline_lines(made.requests, made.steps, decisions, **limits)))
    found = trace["traceEvents"]
    assert_rules(found)
    return trace, found


def assert_rules(found: list[dict[str, Any]]) -> None:
    """What Perfetto asks of a trace: whole microseconds, threads with unique numbers that are not 0, slices that nest."""
    process_of: dict[int, int] = {}
    threads: dict[int, list[tuple[int, int]]] = defaultdict(list)
    named = {
        (event["pid"], event.get("tid")) for event in found if event["ph"] == "M" and event["name"] != "process_sort_index"
    }
    for event in found:
        assert event["ph"] in ("M", "X", "C", "i") and event["pid"] > 0 and event["name"]
        if "tid" in event:
            assert event["tid"] > 0 and process_of.setdefault(event["tid"], event["pid"]) == event["pid"]
            assert (event["pid"], event["tid"]) in named
        assert (event["pid"], None) in named
        if event["ph"] != "M":
            assert isinstance(event["ts"], int) and event["ts"] >= 0
        if event["ph"] == "X":
            assert isinstance(event["dur"], int) and event["dur"] >= 0
            threads[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for slices in threads.values():
        open_until: list[int] = []
        for start, end in sorted(slices, key=lambda span: span[0]):  # stable: those that begin together stay in their order
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1], "slices overlap without nesting"
            open_until.append(end)


def slices_of(found: list[dict[str, Any]], category: str | None) -> list[tuple[str, int, int]]:
    return [
        (event["name"], event["ts"], event["dur"]) for event in found if event["ph"] == "X" and event.get("cat") == category
    ]


def test_steps_are_slices_in_microseconds():
    _, found = events(two())
    assert slices_of(found, None) == [("prefill", 0, 10**6), ("mixed", 10**6, 10**6), ("decode", 2 * 10**6, 10**6)]


def test_a_request_is_a_slice_with_its_phases():
    """A takes the first lane; B, beside it, the second, and C, rejected when it came, the third."""
    _, found = events(two())
    assert slices_of(found, "request") == [
        ("A", 0, 3_000_000), ("queued", 0, 0), ("prefill", 0, 1_000_000), ("decode", 1_000_000, 2_000_000),
        ("B", 500_000, 2_500_000), ("queued", 500_000, 500_000), ("prefill", 1_000_000, 1_000_000),
        ("decode", 2_000_000, 1_000_000),
        ("C", 500_000, 0),
    ]  # fmt: skip
    lanes = [event["tid"] for event in found if event["ph"] == "X" and event["name"] in "ABC"]
    assert len(set(lanes)) == 3


def test_counters_follow_the_steps():
    _, found = events(two())
    blocks = [
        (event["ts"], event["args"]["used_blocks"]) for event in found if event["ph"] == "C" and event["name"] == "KV blocks"
    ]
    assert blocks == [(1_000_000, 4), (2_000_000, 9), (3_000_000, 0)]


def test_every_request_and_every_step_is_there():
    made = queue(300)
    _, found = events(made)
    names = sorted(name for name, _, _ in slices_of(found, "request") if name not in ("queued", "prefill", "decode"))
    assert names == sorted(made.requests["request_id"])
    assert [event["args"]["step"] for event in found if event["ph"] == "X" and "step" in event.get("args", {})] == list(
        range(1, 901)
    )
    gone = sum(int(event["name"].split()[0]) for event in found if event["ph"] == "i")
    assert gone == made.steps["preempted"].sum() > 0


def test_requests_share_as_few_lanes_as_there_are_requests_at_a_time():
    made = queue(300)
    _, found = events(made)
    arrival_s, finish_s = made.requests["arrival_s"], made.requests["finish_s"]
    most = max(int(((arrival_s <= moment) & (finish_s > moment)).sum()) for moment in arrival_s)
    assert len({event["tid"] for event in found if event.get("cat") == "request"}) == most


def test_a_long_run_is_cut_at_a_moment_that_it_names():
    made = queue(1000)
    trace, found = events(made, most_steps=500, most_requests=10_000)
    assert 490 < len(slices_of(found, None)) <= 500  # steps of one moment stay together
    end_s = trace["otherData"]["shown_until_s"]
    assert end_s == made.steps["start_s"][500]
    assert [event["ts"] for event in found if event["ph"] == "i" and event["s"] == "g"] == [round(1e6 * end_s)]
    assert max(event["ts"] + event["dur"] for event in found if event.get("cat") == "request") <= round(1e6 * end_s)
    trace, found = events(made, most_steps=10_000, most_requests=100)
    assert sum(name.startswith("r") for name, _, _ in slices_of(found, "request")) == 100


def test_requests_beside_too_many_others_are_counted():
    made = record(requests(arrival_s=[0.0] * 5, finish_s=[1.0, 2.0, 3.0, 4.0, 5.0]))
    trace, found = events(made, most_lanes=2)
    assert trace["otherData"] == {"requests_left_out": 3}
    assert [name for name, _, _ in slices_of(found, "request") if name.startswith("r")] == ["r0", "r1"]


def test_what_never_ended_lasts_to_the_end_of_the_picture():
    stamps = {"arrival_s": [0.0, 1.0], "first_scheduled_s": [0.0, 2.0], "first_token_s": [1.0, NAN], "finish_s": [4.0, NAN]}
    made = record(requests(request_id=["a", "b"], status=["finished", "unfinished"], **stamps))
    _, found = events(made)
    assert slices_of(found, "request")[-3:] == [
        ("b", 10**6, 3 * 10**6),
        ("queued", 10**6, 10**6),
        ("prefill", 2 * 10**6, 2 * 10**6),
    ]


def step(start_s: float, admitted=(), preempted=(), swapped_in=()) -> dict[str, Any]:
    return {"start_s": start_s, "admitted": list(admitted), "preempted": dict(preempted), "swapped_in": list(swapped_in)}


LOG = [
    step(0.0, ["A"]),
    step(1.0, ["B"]),
    step(1.5, preempted={"A": "swap"}),
    step(1.75, swapped_in=["A"]),
    step(2.0, preempted={"A": "recompute", "B": "keep"}),
    step(2.5, ["A"]),
]


def test_a_decision_log_tells_who_was_without_a_seat_and_when():
    found = absences(LOG)
    assert found == {"A": [("swap", 1.5, 1.75), ("recompute", 2.0, 2.5)], "B": [("keep", 2.0, None)]}
    assert absences(LOG, until_s=1.6) == {"A": [("swap", 1.5, None)]}


def test_the_preemptions_of_a_request_lie_within_its_phases():
    _, found = events(two(), LOG)
    lines = slices_of(found, "request")
    assert lines[3:6] == [
        ("decode", 10**6, 2 * 10**6),
        ("swapped out", 1_500_000, 250_000),
        ("preempted", 2_000_000, 500_000),
    ]
    assert lines[-2] == ("without a seat", 2_000_000, 1_000_000)  # B, which never came back


@pytest.mark.parametrize("seed", range(3))
def test_slices_nest_whatever_the_times(seed: int):
    """Stamps that no float says exactly, and many that fall together."""
    draw = np.random.default_rng(seed)
    stamps = np.sort(draw.integers(0, 40, (200, 4)) / 3e5, axis=1)
    made = record(
        requests(arrival_s=stamps[:, 0], first_scheduled_s=stamps[:, 1], first_token_s=stamps[:, 2], finish_s=stamps[:, 3])
    )
    events(made)
