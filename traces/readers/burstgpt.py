"""BurstGPT: CSV with Timestamp (s), Model, Request tokens, Response tokens, Total tokens, Log Type.

Source: github.com/HPMLL/BurstGPT (CC-BY-4.0); Wang et al., "BurstGPT", arXiv:2401.17644, 2024. Times are whole seconds
since the first day; failed requests have 0 response tokens and are dropped with a count. Later files add Session ID and
Elapsed time (s), which tells when an answer ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from traces.readers.cells import csv_cells, header, named_columns
from traces.readers.mooncake import spread
from traces.readers.reader import Columns, Reader, assembled, gathered
from traces.readers.rows import Rows
from traces.readers.sessions import number_turns
from traces.readers.source import Source
from traces.trace import Report, Trace

REQUIRED = ("Timestamp", "Request tokens", "Response tokens")
KNOWN = (*REQUIRED, "Session ID", "Elapsed time")


def read(source: Source, rows: Rows, report: Report, *, spread_ties: bool = False) -> Trace:
    """The trace. `spread_ties` spreads requests of one second evenly up to the next."""
    if not isinstance(spread_ties, bool):
        raise ValueError(f"trace.spread_ties is {spread_ties}, must be true or false")
    report.notes += named_columns([name for name in header(source) if name not in KNOWN])
    chunks = csv_cells(source, rows, REQUIRED, "a BurstGPT trace")
    columns = gathered(rows, (converted(cells, rows) for cells in chunks))
    if spread_ties:
        columns["arrival_s"] = spread(np.asarray(columns["arrival_s"]))
        report.notes.append("requests with equal timestamps spread evenly up to the next timestamp")
    elapsed_s = columns.pop("elapsed_s", None)
    if "session" in columns:
        number_turns(columns, report, None if elapsed_s is None else np.asarray(elapsed_s))
    return assembled(rows, report, columns)


def converted(cells: Mapping[str, Sequence[str]], rows: Rows) -> Columns:
    """Some rows. A prompt of 0 tokens is an error unless the request failed."""
    prompt_tokens = rows.integers("Request tokens", cells["Request tokens"], least=0)
    output_tokens = rows.integers("Response tokens", cells["Response tokens"], least=0)
    for row in np.flatnonzero((prompt_tokens == 0) & (output_tokens > 0)).tolist():
        rows.reject(row, "Request tokens is 0, must be at least 1")
    columns: Columns = {
        "arrival_s": rows.seconds("Timestamp", cells["Timestamp"]),
        "prompt_tokens": np.maximum(prompt_tokens, 1),
        "output_tokens": output_tokens,
    }
    if "Session ID" in cells:
        columns["session"] = rows.texts("Session ID", cells["Session ID"])
    if "Elapsed time" in cells:
        elapsed_s = rows.seconds("Elapsed time", cells["Elapsed time"], absent=np.nan)
        columns["elapsed_s"] = np.where(np.isnan(elapsed_s), 0.0, elapsed_s)
    return columns


READER = Reader("burstgpt", "BurstGPT CSV", lambda source: set(REQUIRED) <= set(header(source)), read)
