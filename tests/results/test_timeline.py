"""timeline.json.gz: what Perfetto reads."""

import json

from tests.results.records import queue, two
from twin.results.timeline import timeline_lines


def events(made, **limits):
    trace = json.loads("".join(timeline_lines(made.requests, made.steps, **limits)))
    return trace, trace["traceEvents"]


def test_steps_are_slices_in_microseconds():
    _, found = events(two())
    slices = [(event["name"], event["ts"], event["dur"]) for event in found if event["ph"] == "X"]
    assert slices == [("prefill", 0.0, 1e6), ("mixed", 1e6, 1e6), ("decode", 2e6, 1e6)]


def test_a_request_is_a_slice_with_its_phases():
    _, found = events(two())
    mine = [(event["ph"], event["name"], event["ts"]) for event in found if event.get("id") == 1]
    assert mine == [
        ("b", "B", 0.5e6), ("e", "B", 3e6), ("b", "queued", 0.5e6), ("e", "queued", 1e6), ("b", "prefill", 1e6),
        ("e", "prefill", 2e6), ("b", "decode", 2e6), ("e", "decode", 3e6),
    ]  # fmt: skip


def test_counters_follow_the_steps():
    _, found = events(two())
    blocks = [event["args"]["used_blocks"] for event in found if event["ph"] == "C" and event["name"] == "KV blocks"]
    assert blocks == [4, 9, 0]


def test_a_long_run_is_cut_at_a_moment_that_it_names():
    made = queue(1000)
    trace, found = events(made, most_steps=500, most_requests=10_000)
    assert 490 < sum(event["ph"] == "X" for event in found) <= 500  # steps of one moment stay together
    assert trace["otherData"]["shown_until_s"] == made.steps["start_s"][500]
    trace, found = events(made, most_steps=10_000, most_requests=100)
    assert sum(event["ph"] == "b" and event["name"].startswith("r") for event in found) == 100


def test_every_slice_that_begins_ends():
    _, found = events(queue(300))
    assert sum(event["ph"] == "b" for event in found) == sum(event["ph"] == "e" for event in found)
