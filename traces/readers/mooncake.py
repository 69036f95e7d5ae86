"""Mooncake traces: JSONL with timestamp (ms), input_length, output_length, and hash_ids of blocks of 512 tokens.

Source: github.com/kvcache-ai/Mooncake, FAST25-release (Apache-2.0); Qin et al., "Mooncake: Trading more storage for
less computation", FAST 2025. Equal ids are equal content including all that comes before (the ids are chained).
"""

from __future__ import annotations

import numpy as np

from traces.readers.cells import first_object, jsonl_cells
from traces.readers.content import content
from traces.readers.reader import Reader, assembled
from traces.readers.rows import Rows
from traces.readers.source import Source
from traces.trace import Report, Trace

COLUMNS = ("timestamp", "input_length", "output_length", "hash_ids")
HASH_BLOCK_TOKENS = 512


def read(source: Source, rows: Rows, report: Report, *, spread_ties: bool = False) -> Trace:
    """The trace. Its clock ticks every 3 s; `spread_ties` spreads requests of one tick evenly up to the next."""
    if not isinstance(spread_ties, bool):
        raise ValueError(f"trace.spread_ties is {spread_ties}, must be true or false")
    cells, unknown = jsonl_cells(source, rows, COLUMNS)
    missing = [name for name in COLUMNS if name not in cells]
    if missing:
        rows.good()  # a first line that cannot be read is the better explanation
        raise ValueError(f"{source.path}:{rows.lines[0]}: no {missing[0]}; a Mooncake row has {', '.join(COLUMNS)}")
    if unknown:
        report.notes.append(f"columns ignored: {', '.join(unknown)}")
    arrival_s = rows.seconds("timestamp", cells["timestamp"]) / 1e3
    prompt_tokens = rows.integers("input_length", cells["input_length"], least=1)
    output_tokens = rows.integers("output_length", cells["output_length"], least=0)
    prefix = content("hash_ids", cells["hash_ids"], rows, prompt_tokens, HASH_BLOCK_TOKENS)
    if spread_ties:
        good = rows.unproblematic()
        arrival_s[good] = spread(arrival_s[good])
        report.notes.append("requests with equal timestamps spread evenly up to the next timestamp")
    columns: dict[str, np.ndarray | list[str]] = {
        "arrival_s": arrival_s,
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
    }
    return assembled(rows, report, columns, prefix)


def spread(arrival_s: np.ndarray) -> np.ndarray:
    """The k-th of m requests that share a time moves on by k/m of the way to the next time (at most a usual tick)."""
    times, group, size = np.unique(arrival_s, return_inverse=True, return_counts=True)
    if len(times) < 2:
        return arrival_s
    usual = float(np.median(np.diff(times)))
    tick = np.minimum(np.append(np.diff(times), usual), usual)
    order = np.argsort(group, kind="stable")
    place = np.empty(len(group))
    place[order] = np.arange(len(group)) - np.repeat(np.cumsum(size) - size, size)
    return arrival_s + tick[group] * place / size[group]


READER = Reader(
    "mooncake", "Mooncake JSONL", lambda source: {"timestamp", "input_length"} <= set(first_object(source)), read
)
