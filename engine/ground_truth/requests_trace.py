"""The requests of a recording as a trace: what the simulator may know of them, and nothing of how they fared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.ground_truth.recording import RecordedRequest, Recording
from traces.prefix import Prefix
from traces.trace import Trace


def as_asked(recording: Recording) -> Trace:
    """Arrivals as they were meant: what a simulator that runs freely is given."""
    rows = sorted(recording.requests, key=lambda row: row.arrival_s)
    return _trace(recording, rows, [row.arrival_s for row in rows])


def as_added(recording: Recording) -> Trace:
    """Arrivals as the engine was given them: for lockstep."""
    return _trace(recording, recording.requests, [row.added_s for row in recording.requests])


def _trace(recording: Recording, rows: Sequence[RecordedRequest], arrival_s: list[float]) -> Trace:
    prompts = [row.prompt_ids or [] for row in rows]
    lengths = np.array([row.prompt_tokens for row in rows])
    stamped = any(row.deadline_s is not None for row in rows)
    return Trace(
        name=recording.name,
        arrival_s=np.array(arrival_s),
        prompt_tokens=lengths,
        output_tokens=np.array([row.output_tokens for row in rows]),
        request_id=[row.id for row in rows],
        user=[row.user or "" for row in rows] if any(row.user for row in rows) else None,
        session=[row.session or "" for row in rows] if any(row.session for row in rows) else None,
        priority=np.array([row.priority for row in rows]) if any(row.priority for row in rows) else None,
        deadline_s=np.array([np.nan if row.deadline_s is None else row.deadline_s for row in rows]) if stamped else None,
        prefix=Prefix.of(prompts, lengths, 1) if any(prompts) else None,
    )
