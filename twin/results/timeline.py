"""timeline.json.gz: the run as a trace that Perfetto and chrome://tracing open.

The Trace Event Format (Google, 2016), as Perfetto reads it: a process is a replica, with its steps as slices of one thread
and its counters; requests are slices of the threads of a process of their own, as many as there are requests at a time, each
with its queueing, prefill and decoding inside. Slices of a thread must nest, so times are whole microseconds, rounded once
and never added up. Numbers of threads are unique over all processes, and 0, which Perfetto keeps for the idle one, is none.
"""

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from twin.results.columns import Table

MOST_STEPS = 100_000
MOST_REQUESTS = 25_000
MOST_LANES = 500
REQUESTS_PID = 1  # replicas are the processes 2, 3, ...; the thread of their steps has the same number
FIRST_LANE = 100_000  # threads of the requests are numbered from here
COUNTERS = (("requests", ("running", "waiting", "swapped")), ("KV blocks", ("used_blocks", "cached_blocks")))
STAMPS = ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s")
PHASES = ("queued", "prefill", "decode")

Event = dict[str, Any]


class Absence(NamedTuple):
    """From its preemption to its next admission, seconds; `end_s` is None if it never came back."""

    mode: str
    start_s: float
    end_s: float | None


def timeline_lines(
    requests: Table,
    steps: Table,
    decisions: Iterable[Mapping[str, Any]] = (),
    *,
    most_steps: int = MOST_STEPS,
    most_requests: int = MOST_REQUESTS,
    most_lanes: int = MOST_LANES,
) -> Iterator[str]:
    """The JSON text, line by line. With the lines of a decision log the preemptions of each request are in it too.

    Of a longer run only its beginning is shown, up to the moment at which one of the limits is reached; `otherData` then
    says when that was, and a mark stands there. Perfetto opens some 100 MB, which these limits respect. Requests that wait
    or run beside `most_lanes` others are left out, and counted.
    """
    until_s = min(_limit(steps["start_s"], most_steps), _limit(requests["arrival_s"], most_requests))
    rows = _before(requests, requests["arrival_s"], until_s)
    lanes, left_out = _lanes(rows, _last_moment(rows, until_s), most_lanes)
    other: dict[str, Any] = {"shown_until_s": until_s} if np.isfinite(until_s) else {}
    if left_out:
        other["requests_left_out"] = left_out
    yield json.dumps({"displayTimeUnit": "ms", "otherData": other})[:-1] + ', "traceEvents": [\n'
    separator = ""
    for event in _events(rows, lanes, _before(steps, steps["start_s"], until_s), absences(decisions, until_s), other):
        yield separator + json.dumps(event, separators=(",", ":"), allow_nan=False)
        separator = ",\n"
    yield "\n]}\n"


def absences(decisions: Iterable[Mapping[str, Any]], until_s: float = np.inf) -> dict[str, list[Absence]]:
    """When each sequence was without its seat after a preemption, by the lines of a decision log, which are in order."""
    found: dict[str, list[Absence]] = {}
    for step in decisions:
        if step["start_s"] >= until_s:
            break
        for name in (*step["admitted"], *step["swapped_in"]):
            if (mine := found.get(name)) and mine[-1].end_s is None:
                mine[-1] = mine[-1]._replace(end_s=step["start_s"])
        for name, mode in step["preempted"].items():
            found.setdefault(name, []).append(Absence(mode, step["start_s"], None))
    return found


def _limit(times_s: np.ndarray, most: int) -> float:
    times_s = times_s[~np.isnan(times_s)]
    return float(np.partition(times_s, most)[most]) if len(times_s) > most else float("inf")


def _before(table: Table, times_s: np.ndarray, until_s: float) -> dict[str, list[Any]]:
    shown = times_s < until_s
    return {name: column[shown].tolist() for name, column in table.items()}


def _last_moment(rows: dict[str, list[Any]], until_s: float) -> float:
    """Where the picture ends."""
    known = [moment for stamp in STAMPS for moment in rows[stamp] if moment == moment]
    return min(until_s, max(known, default=0.0))


def _lanes(rows: dict[str, list[Any]], end_s: float, most: int) -> tuple[list[tuple[int, int, int, int]], int]:
    """(row, lane, first and last microsecond) of each request: the lowest lane that is free; and how many found none."""
    free = list(range(most))  # a heap
    busy: list[tuple[int, int]] = []  # a heap: when it will be free, and which lane
    placed, left_out = [], 0
    spans = [
        (_us(arrival_s), max(_us(arrival_s), _us(min(end_s, finish_s) if finish_s == finish_s else end_s)), row)
        for row, (arrival_s, finish_s) in enumerate(zip(rows["arrival_s"], rows["finish_s"], strict=True))
    ]
    for start, end, row in sorted(spans, key=lambda span: (span[0], span[2])):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            left_out += 1
            continue
        lane = heapq.heappop(free)
        heapq.heappush(busy, (max(end, start + 1), lane))  # two requests of no duration do not share a moment
        placed.append((row, lane, start, end))
    return placed, left_out


def _events(
    rows: dict[str, list[Any]],
    lanes: list[tuple[int, int, int, int]],
    steps: dict[str, list[Any]],
    absent: Mapping[str, list[Absence]],
    other: Mapping[str, Any],
) -> Iterator[Event]:
    for replica in sorted(set(steps["replica"])):
        yield from _named(replica + 2, f"replica {replica}", 0)
        yield _thread(replica + 2, replica + 2, "steps")
    yield from _named(REQUESTS_PID, "requests", 1)
    for lane in sorted({lane for _, lane, _, _ in lanes}):
        yield _thread(REQUESTS_PID, FIRST_LANE + lane, f"requests {lane + 1}")
    if "shown_until_s" in other:
        name = "the timeline ends here, the run does not"
        yield {"ph": "i", "s": "g", "name": name, "pid": REQUESTS_PID, "tid": FIRST_LANE, "ts": _us(other["shown_until_s"])}
    yield from _steps(steps)
    for row, lane, start, end in lanes:
        yield from _request(rows, row, FIRST_LANE + lane, start, end, absent)


def _named(pid: int, name: str, place: int) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": place}}


def _thread(pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def _steps(rows: dict[str, list[Any]]) -> Iterator[Event]:
    shown = ("step", "repeat", "sequences", "prefill_tokens", "decode_tokens", "context_tokens", "preempted",
             "swapped_in_blocks", "swapped_out_blocks")  # fmt: skip
    ends = _ends(rows)
    for row, start_s in enumerate(rows["start_s"]):
        pid, start, end = rows["replica"][row] + 2, _us(start_s), ends[row]
        place = {"pid": pid, "tid": pid, "ts": start}
        yield {"ph": "X", "name": _kind(rows, row), "dur": end - start, **place,
               "args": {name: rows[name][row] for name in shown if rows[name][row]}}  # fmt: skip
        for key, words in (("preempted", "preempted"), ("swapped_out_blocks", "blocks to the host"),
                           ("swapped_in_blocks", "blocks back from the host")):  # fmt: skip
            if rows[key][row]:
                yield {"ph": "i", "s": "t", "name": f"{rows[key][row]} {words}", **place}
        for counter, names in COUNTERS:
            yield {"ph": "C", "name": counter, "pid": pid, "ts": end, "args": {name: rows[name][row] for name in names}}


def _ends(rows: dict[str, list[Any]]) -> list[int]:
    """When each row ends, never after the next one of its replica begins: start + duration may, by a rounding error."""
    ends, following = [0] * len(rows["start_s"]), dict[int, int]()
    for row in reversed(range(len(ends))):
        replica = rows["replica"][row]
        end = _us(rows["start_s"][row] + rows["duration_s"][row])
        ends[row] = min(end, following.get(replica, end))
        following[replica] = _us(rows["start_s"][row])
    return ends


def _kind(rows: dict[str, list[Any]], row: int) -> str:
    prefill, decode = rows["prefill_tokens"][row], rows["decode_tokens"][row]
    name = "mixed" if prefill and decode else "prefill" if prefill else "decode" if decode else "preempt"
    return f"{name} x{rows['repeat'][row]}" if rows["repeat"][row] > 1 else name


def _request(
    rows: dict[str, list[Any]], row: int, tid: int, start: int, end: int, absent: Mapping[str, list[Absence]]
) -> Iterator[Event]:
    """A request with its phases, of which the last that began is cut where it ended or the picture ends."""
    shown = ("prompt_tokens", "generated_tokens", "status", "reason", "cached_tokens", "preemptions", "swap_outs",
             "recomputed_tokens", "user", "session", "priority")  # fmt: skip
    place = {"cat": "request", "pid": REQUESTS_PID, "tid": tid}
    name = rows["request_id"][row]
    yield {"ph": "X", "name": name, "ts": start, "dur": end - start, **place,
           "args": {key: rows[key][row] for key in shown if rows[key][row]}}  # fmt: skip
    moments = [rows[stamp][row] for stamp in STAMPS]
    for index, phase in enumerate(PHASES):
        if moments[index] != moments[index] or _us(moments[index]) >= end:
            continue
        after = moments[index + 1]
        begin, stop = _us(moments[index]), min(end, _us(after)) if after == after else end
        yield {"ph": "X", "name": phase, "ts": begin, "dur": stop - begin, **place}
        # Without its seat for a while inside this phase. Before its first token that is within the prefill.
        for gap in absent.get(name, ()):
            left, back = _us(gap.start_s), end if gap.end_s is None else _us(gap.end_s)
            if phase != "queued" and begin <= left < stop:
                words = {"swap": "swapped out", "keep": "without a seat"}.get(gap.mode, "preempted")
                yield {"ph": "X", "name": words, "ts": left, "dur": min(back, stop) - left, **place}


def _us(seconds: float) -> int:
    return round(1e6 * seconds)
