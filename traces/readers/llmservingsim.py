"""LLMServingSim: JSONL with input_toks, output_toks, arrival_time_ns, and input_tok_ids; or a session a line.

Source: github.com/casys-kaist/LLMServingSim, workloads/ (MIT), 2026. A session has session_id, arrival_time_ns and
sub_requests, each of which is sent tool_duration_ns after the answer to the one before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traces.readers.cells import first_keys, flattened, jsonl_objects
from traces.readers.content import Content
from traces.readers.reader import Columns, Reader, assembled, gathered
from traces.readers.rows import Rows, real
from traces.readers.source import Source
from traces.trace import Report, Trace

NS = 1e9  # per second


def read(source: Source, rows: Rows, report: Report) -> Trace:
    """The trace. In a session the file tells no arrivals but the first: the tools' times alone lie between the others."""
    content = Content("input_tok_ids", 1)
    columns = gathered(rows, chunks(source, rows, content), {"session": "", "turn": 0, "think_s": np.nan})
    if not any(columns.get("session", ())):
        for name in ("session", "turn", "think_s"):
            columns.pop(name, None)
    else:
        report.notes.append(
            "turns of a session arrive as if answers took no time: simulate.closed_sessions=true waits for them"
        )
    return assembled(rows, report, columns)


def chunks(source: Source, rows: Rows, content: Content) -> Iterator[Columns]:
    """Some lines after the other."""
    for objects in jsonl_objects(source, rows):
        entries = flattened(rows, objects, requests)
        prompt_tokens = rows.integers("input_toks", [entry.get("input_toks") for entry in entries], least=1)
        columns: Columns = {
            "arrival_s": rows.seconds("arrival_time_ns", [entry.get("arrival_time_ns") for entry in entries]) / NS,
            "prompt_tokens": prompt_tokens,
            "output_tokens": rows.integers("output_toks", [entry.get("output_toks") for entry in entries], least=0),
            "session": rows.texts("session_id", [entry.get("session_id") for entry in entries]),
            "turn": rows.integers("turn", [entry.get("turn") for entry in entries], absent=0),
            "think_s": rows.seconds("think", [entry.get("think_s") for entry in entries], absent=np.nan),
        }
        if any("input_tok_ids" in entry for entry in entries):
            columns["content"] = content.column([entry.get("input_tok_ids") for entry in entries], rows, prompt_tokens)
        yield columns


def requests(entry: dict[str, object]) -> list[dict[str, object]]:
    """The requests of a line, with what only a session tells of them."""
    if "sub_requests" not in entry:
        return [{name: value for name, value in entry.items() if name not in ("session_id", "turn", "think_s")}]
    parts = entry["sub_requests"]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts) or not parts:
        raise ValueError("sub_requests must be a list of objects")
    if entry.get("session_id") is None:
        raise ValueError("session_id is missing")
    arrival_ns = time_ns("arrival_time_ns", entry.get("arrival_time_ns"))
    found: list[dict[str, object]] = []
    think_s = None
    for turn, part in enumerate(parts, start=1):
        own = {"session_id": entry["session_id"], "turn": turn, "arrival_time_ns": arrival_ns, "think_s": think_s}
        found.append({**part, **own})
        tool_ns = time_ns("tool_duration_ns", part.get("tool_duration_ns") or 0)
        arrival_ns += tool_ns
        think_s = tool_ns / NS
    return found


def time_ns(name: str, value: object) -> float:
    """A time that is finite and not negative."""
    try:
        number = real(value)
    except ValueError as problem:
        raise ValueError(f"{name} {problem}") from None
    if not 0 <= number < np.inf:
        raise ValueError(f"{name} is {number}, must be finite and not negative")
    return number


def recognises(source: Source) -> bool:
    """Whether a text begins with a request or a session."""
    keys = first_keys(source)
    return {"input_toks", "output_toks"} <= keys or "sub_requests" in keys


READER = Reader("llmservingsim", "LLMServingSim JSONL", recognises, read)
