"""timeline.json.gz: the run as a trace that Perfetto and chrome://tracing open.

The Trace Event Format (Google, 2016): a process is a replica with its steps as slices and its counters; a request is
an asynchronous slice with those of its queueing, prefill and decoding inside. Times are in microseconds.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from twin.results.columns import Table

MOST_STEPS = 100_000
MOST_REQUESTS = 25_000
REQUESTS_PID = 0  # replicas are the processes 1, 2, ...
COUNTERS = (("requests", ("running", "waiting", "swapped")), ("KV blocks", ("used_blocks", "cached_blocks")))


def timeline_lines(
    requests: Table, steps: Table, *, most_steps: int = MOST_STEPS, most_requests: int = MOST_REQUESTS
) -> Iterator[str]:
    """The JSON text, line by line. Of a longer run only its beginning is shown, up to the moment at which one of the
    limits is reached; `otherData` then says when that was. Perfetto opens some 100 MB, which these limits respect.
    """
    until_s = min(_limit(steps["start_s"], most_steps), _limit(requests["arrival_s"], most_requests))
    other = {"shown_until_s": until_s} if np.isfinite(until_s) else {}
    yield json.dumps({"displayTimeUnit": "ms", "otherData": other})[:-1] + ', "traceEvents": [\n'
    separator = ""
    for event in _events(requests, steps, until_s):
        yield separator + json.dumps(event, separators=(",", ":"), allow_nan=False)
        separator = ",\n"
    yield "\n]}\n"


def _limit(times_s: np.ndarray, most: int) -> float:
    times_s = times_s[~np.isnan(times_s)]
    return float(np.partition(times_s, most)[most]) if len(times_s) > most else float("inf")


def _events(requests: Table, steps: Table, until_s: float) -> Iterator[dict[str, Any]]:
    yield _name(REQUESTS_PID, "requests")
    for replica in np.unique(steps["replica"]):
        yield _name(int(replica) + 1, f"replica {replica}")
    yield from _steps({name: column[steps["start_s"] < until_s].tolist() for name, column in steps.items()})
    shown = requests["arrival_s"] < until_s
    yield from _requests({name: column[shown].tolist() for name, column in requests.items()}, until_s)


def _name(pid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def _steps(rows: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    shown = ("step", "repeat", "sequences", "prefill_tokens", "decode_tokens", "context_tokens", "preempted",
             "swapped_in_blocks", "swapped_out_blocks")  # fmt: skip
    for row, start_s in enumerate(rows["start_s"]):
        pid, start = rows["replica"][row] + 1, 1e6 * start_s
        length = 1e6 * rows["duration_s"][row]
        yield {"ph": "X", "name": _kind(rows, row), "pid": pid, "tid": 1, "ts": start, "dur": length,
               "args": {name: rows[name][row] for name in shown if rows[name][row]}}  # fmt: skip
        if rows["preempted"][row]:
            name = f"{rows['preempted'][row]} preempted"
            yield {"ph": "i", "s": "t", "name": name, "pid": pid, "tid": 1, "ts": start}
        for counter, names in COUNTERS:
            yield {"ph": "C", "name": counter, "pid": pid, "ts": start + length,
                   "args": {name: rows[name][row] for name in names}}  # fmt: skip


def _kind(rows: dict[str, list[Any]], row: int) -> str:
    prefill, decode = rows["prefill_tokens"][row], rows["decode_tokens"][row]
    name = "mixed" if prefill and decode else "prefill" if prefill else "decode" if decode else "preempt"
    return f"{name} x{rows['repeat'][row]}" if rows["repeat"][row] > 1 else name


def _requests(rows: dict[str, list[Any]], until_s: float) -> Iterator[dict[str, Any]]:
    """Each request with its phases, of which the last that began is cut where it ended or the picture ends."""
    stamps = ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s")
    shown = ("prompt_tokens", "generated_tokens", "status", "reason", "cached_tokens", "preemptions", "user", "session",
             "priority")  # fmt: skip
    known = [moment for stamp in stamps for moment in rows[stamp] if moment == moment]
    end_s = min(until_s, max(known, default=0.0))
    for row, request in enumerate(rows["request_id"]):
        moments = [rows[stamp][row] for stamp in stamps]
        last = moments[3] if moments[3] == moments[3] else end_s
        arguments = {name: rows[name][row] for name in shown if rows[name][row]}
        yield from _slice(row, request, moments[0], last, arguments)
        for name, begin, end in zip(("queued", "prefill", "decode"), moments, moments[1:], strict=False):
            if begin == begin:
                yield from _slice(row, name, begin, end if end == end else last, {})


def _slice(row: int, name: str, begin_s: float, end_s: float, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    common = {"cat": "request", "id": row, "name": name, "pid": REQUESTS_PID, "tid": 0}
    yield {"ph": "b", "ts": 1e6 * begin_s, **common, "args": arguments}
    yield {"ph": "e", "ts": 1e6 * max(begin_s, end_s), **common}
