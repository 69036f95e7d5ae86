"""Agent sessions of kv-cache-tester: a JSON object a session, in a file of its own, in JSONL, or a folder of files.

Source: github.com/callanjfox/kv-cache-tester, traces/ (Apache-2.0), 2026: Claude Code sessions. A session has `id`,
`block_size` (tokens an id covers, 64), `hash_id_scope` and `requests`: t (s since the session began), in, out, hash_ids
of the whole blocks, api_time, think_time (s). An entry of type subagent holds requests of its own, whose t counts from
its t, and whose ids are of the session's. `hash_runs`, inclusive runs [[first, last], ...], may stand for hash_ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from traces.readers.cells import first_keys
from traces.readers.content import Ragged
from traces.readers.documents import values
from traces.readers.reader import Columns, Reader, assembled, gathered
from traces.readers.rows import Rows, integer, real, shown
from traces.readers.source import Source
from traces.trace import Report, Trace

MOST_IDS = 1 << 27  # of a file: they are in memory as numbers of 32 bits
SPARSE = 8  # ids go up to at most so many times their count, else they are numbered anew
MOST_ID = (1 << 31) - 1
DEEPEST = 4  # agents of agents
RECORD = {"id", "block_size", "requests"}
SAMPLE = "trace_*.json"  # of a folder


def read(source: Source, rows: Rows, report: Report, *, session_rate: float | None = None) -> Trace:
    """The trace. The files do not tell when a session begins: all begin at once, or evenly at `session_rate` a second.

    Each session's ids are its own, unless its scope is global. A subagent is a session beside its parent's.
    """
    if session_rate is not None and (
        isinstance(session_rate, bool) or not isinstance(session_rate, int | float) or not 0 < session_rate < np.inf
    ):
        raise ValueError(f"trace.session_rate is {session_rate}, must be more than 0 sessions/s")
    sessions = Sessions(rows, 0.0 if session_rate is None else 1 / session_rate)
    columns = gathered(rows, (sessions.converted(line, entry) for line, entry in entries(source, rows)))
    rows.path = source.path
    begin = "all at once" if session_rate is None else f"evenly, {session_rate:g} a second"
    report.notes.append(f"{sessions.number:,} sessions, which the files do not place in time, begin {begin}")
    return assembled(rows, report, columns, sessions.block_tokens or 1)


def entries(source: Source, rows: Rows) -> Iterator[tuple[int, object]]:
    """The sessions of a file, or of the files of a folder in order of their names."""
    if source.kind != "folder":
        yield from values(source)
        return
    for path in sorted(source.path.glob("*.json")):
        rows.path = path
        yield from values(Source.load(str(path)))


class Sessions:
    """Sessions become rows here; each has a range of content ids of its own."""

    def __init__(self, rows: Rows, apart_s: float) -> None:
        self.rows, self.apart_s = rows, apart_s
        self.number = 0
        self.block_tokens = 0  # of an id; 0: not known yet
        self.next_id = 0
        self.ids = 0

    def converted(self, line: int, entry: object) -> Columns:
        """One session. What is wrong with its frame is an error; with a request, a bad row."""
        place = f"{self.rows.path}:{line}"
        if not isinstance(entry, dict) or not isinstance(entry.get("requests"), list):
            raise ValueError(f"{place}: a session must be an object with a list requests")
        try:
            block_tokens = integer(entry.get("block_size"))
        except ValueError as problem:
            raise ValueError(f"{place}: block_size {problem}") from None
        self.block_tokens = self.block_tokens or block_tokens
        if block_tokens < 1 or block_tokens != self.block_tokens:
            raise ValueError(f"{place}: block_size is {block_tokens}, must be {self.block_tokens or 1} in all sessions")
        name = str(entry.get("id", self.number))
        found = list(flat(entry["requests"], name, self.number * self.apart_s, 0))
        self.number += 1
        rows = self.rows
        rows.lines = [f"{line}, request {row + 1}" for row in range(len(found))]
        prompt_tokens = rows.integers("in", [request.get("in") for _, _, _, request in found], least=1)
        columns: Columns = {
            "arrival_s": self.arrivals([(begin_s, request.get("t")) for _, _, begin_s, request in found]),
            "prompt_tokens": prompt_tokens,
            "output_tokens": rows.integers("out", [request.get("out") for _, _, _, request in found], least=0),
            "session": [session for session, _, _, _ in found],
            "turn": np.array([turn for _, turn, _, _ in found], np.int64),
            "think_s": rows.seconds("think_time", [request.get("think_time") for *_, request in found], absent=np.nan),
        }
        columns["think_s"] = thinking(columns, found)
        columns["content"] = self.content(prompt_tokens, [request for *_, request in found], entry)
        return columns

    def arrivals(self, times: list[tuple[float, object]]) -> np.ndarray:
        """Seconds: when the session or subagent begins, plus the request's own time."""
        since = self.rows.seconds("t", [time for _, time in times])
        begin_s = np.array([begin_s for begin_s, _ in times])
        for row in np.flatnonzero(~(begin_s >= 0) | (begin_s == np.inf)).tolist():
            self.rows.reject(row, "t of its subagent must be a number, finite and not negative")
        return since + begin_s

    def content(self, prompt_tokens: np.ndarray, requests: list[dict], entry: dict) -> Ragged:
        """The ids of the requests, moved to a range that is this session's."""
        lists = []
        for row, (request, tokens) in enumerate(zip(requests, prompt_tokens.tolist(), strict=True)):
            try:
                ids = hash_ids(request, -(-tokens // self.block_tokens))
            except ValueError as problem:
                self.rows.reject(row, str(problem))
                ids = np.empty(0, np.int32)
            lists.append(ids)
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        self.ids += int(counts.sum())
        if self.ids > MOST_IDS:
            raise ValueError(f"{self.rows.path}: more than {MOST_IDS:,} content ids: read fewer sessions")
        ids = np.concatenate([np.empty(0, np.int32), *lists])
        if entry.get("hash_id_scope", "local") != "global":
            if ids.max(initial=0) > SPARSE * len(ids):
                _, ids = np.unique(ids, return_inverse=True)  # from 0 on: ids of all sessions fit in 32 bits
            ids = (ids + self.next_id).astype(np.int32)  # SPARSE * MOST_IDS at most
            self.next_id = max(self.next_id, int(ids.max(initial=-1)) + 1)
        return Ragged(counts, ids)


def flat(requests: list, session: str, begin_s: float, depth: int) -> Iterator[tuple[str, int, float, dict]]:
    """(session, turn from 1, begin of the session or subagent in s, request) of each request and its subagents'."""
    turn = 0
    for place, request in enumerate(requests, start=1):
        if not isinstance(request, dict):
            turn += 1
            yield session, turn, begin_s, {}
        elif isinstance(request.get("requests"), list) and depth < DEEPEST:
            try:
                since_s = real(request.get("t"))
            except ValueError:
                since_s = np.nan  # makes bad rows of its requests
            name = f"{session}/{request.get('agent_id', place)}"
            inner = flat(request["requests"], name, begin_s + since_s, depth + 1)
            yield from inner
        else:
            turn += 1
            yield session, turn, begin_s, request


def thinking(columns: Columns, found: list[tuple[str, int, float, dict]]) -> np.ndarray:
    """think_time; where a later turn has none, from the arrival before to its own; nan for first turns."""
    think_s, arrival_s = np.array(columns["think_s"]), np.asarray(columns["arrival_s"])
    last: dict[str, int] = {}
    for row, (session, turn, _, _) in enumerate(found):
        if turn == 1:
            think_s[row] = np.nan
        elif np.isnan(think_s[row]):
            think_s[row] = max(arrival_s[row] - arrival_s[last[session]], 0.0)
        last[session] = row
    return think_s


def hash_ids(request: dict, most: int) -> np.ndarray:
    """The ids of a request, at most `most`: listed, or as inclusive runs, which are counted before they are unrolled."""
    if "hash_runs" not in request:
        listed = request.get("hash_ids", [])
        if not isinstance(listed, list) or not all(type(number) is int and 0 <= number <= MOST_ID for number in listed):
            raise ValueError(f"hash_ids must be a list of integers from 0 to {MOST_ID}")
        if len(listed) > most:
            raise ValueError(f"hash_ids has {len(listed)} entries, the prompt has at most {most} blocks")
        return np.array(listed, np.int32)
    runs = request["hash_runs"]
    parts, size = [], 0
    if not isinstance(runs, list):
        raise ValueError("hash_runs must be a list of [first, last]")
    for run in runs:
        if not (isinstance(run, list) and len(run) == 2 and all(type(number) is int for number in run)):
            raise ValueError(f"hash_runs must be a list of [first, last], has {shown(run)}")
        first, last = run
        if not 0 <= first <= last <= MOST_ID:
            raise ValueError(f"hash_runs has {shown(run)}, must go up, from 0 to {MOST_ID}")
        size += last - first + 1
        if size > most:
            raise ValueError(f"hash_runs has more than {most} entries, which is all the blocks of the prompt")
        parts.append(np.arange(first, last + 1, dtype=np.int32))
    return np.concatenate([np.empty(0, np.int32), *parts])


def recognises(source: Source) -> bool:
    """Whether a text begins with a session, or a folder has a file that does."""
    if source.kind != "folder":
        return RECORD <= first_keys(source)
    path: Path | None = next(iter(sorted(source.path.glob(SAMPLE))), None)
    return path is not None and RECORD <= first_keys(Source.load(str(path)))


READER = Reader("agents", "agent sessions of kv-cache-tester", recognises, read)
