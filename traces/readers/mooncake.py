"""Mooncake traces: JSONL with timestamp (ms), input_length, output_length, and hash_ids of blocks of 512 tokens.

Source: github.com/kvcache-ai/Mooncake, FAST25-release (Apache-2.0); Qin et al., "Mooncake: Trading more storage for
less computation", FAST 2025. Equal ids are equal content including all that comes before (the ids are chained).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from traces.readers.cells import first_keys, jsonl_cells, named_columns
from traces.readers.content import Content
from traces.readers.reader import Columns, Reader, assembled, gathered
from traces.readers.rows import Cells, Rows
from traces.readers.source import Source
from traces.trace import Report, Trace

COLUMNS = ("timestamp", "input_length", "output_length", "hash_ids")
HASH_BLOCK_TOKENS = 512


def read(source: Source, rows: Rows, report: Report, *, spread_ties: bool = False) -> Trace:
    """The trace. Its clock ticks every 3 s; `spread_ties` spreads requests of one tick evenly up to the next."""
    if not isinstance(spread_ties, bool):
        raise ValueError(f"trace.spread_ties is {spread_ties}, must be true or false")
    unknown: dict[str, None] = {}
    content = Content("hash_ids", HASH_BLOCK_TOKENS)
    chunks = jsonl_cells(source, rows, COLUMNS, COLUMNS, "a Mooncake row", unknown)
    columns = gathered(rows, (converted(cells, rows, content) for cells in chunks))
    report.notes += named_columns(unknown)
    if spread_ties and len(columns["prompt_tokens"]):
        columns["arrival_s"] = spread(np.asarray(columns["arrival_s"]))
        report.notes.append("requests with equal timestamps spread evenly up to the next timestamp")
    return assembled(rows, report, columns, HASH_BLOCK_TOKENS)


def converted(cells: Mapping[str, Cells], rows: Rows, content: Content) -> Columns:
    """Some rows."""
    prompt_tokens = rows.integers("input_length", cells["input_length"], least=1)
    return {
        "arrival_s": rows.seconds("timestamp", cells["timestamp"]) / 1e3,
        "prompt_tokens": prompt_tokens,
        "output_tokens": rows.integers("output_length", cells["output_length"], least=0),
        "content": content.column(cells["hash_ids"], rows, prompt_tokens),
    }


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


READER = Reader("mooncake", "Mooncake JSONL", lambda source: {"timestamp", "input_length"} <= first_keys(source), read)
