"""Azure inference traces of 2023, 2024 and 2025: CSV with the columns TIMESTAMP, ContextTokens, GeneratedTokens.

Source: github.com/Azure/AzurePublicDataset (CC-BY-4.0); Patel et al., "Splitwise", ISCA 2024 (2023: lines end in CRLF,
fractions of seconds have 7 digits, no time zone), Stojkovic et al., "DynamoLLM", HPCA 2025 (2024: with a time zone,
`+00:00`, and fractions only where they are not 0), and Qiu et al., "ModServe", SoCC 2025 (multimodal: packed, with a
column NumImages, which is not read: the trace tells no tokens of an image beside ContextTokens).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from traces.readers.cells import csv_cells, header, named_columns
from traces.readers.reader import Columns, Reader, assembled, gathered
from traces.readers.rows import Rows, shown
from traces.readers.source import Source
from traces.trace import Report, Trace

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
TIMESTAMP = re.compile(
    r"\s*((?:19|20)\d\d-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,9})?)\s*(Z|[+-][01]\d:?[0-5]\d)?\s*", re.ASCII
)
NO_TIME = np.datetime64("1970-01-01", "ns")
UTC = (None, "Z", "+00:00", "+0000")


def read(source: Source, rows: Rows, report: Report) -> Trace:
    """The trace; TIMESTAMP becomes seconds since the first request, exact to the nanosecond."""
    unknown = [name for name in header(source) if name not in COLUMNS]
    report.notes += named_columns(unknown)
    columns = gathered(rows, (converted(cells, rows) for cells in csv_cells(source, rows, COLUMNS, "an Azure trace")))
    times = np.asarray(columns.pop("time_ns"))
    columns["arrival_s"] = (times - (times.min() if len(times) else 0)) / 1e9
    return assembled(rows, report, columns)


def converted(cells: Mapping[str, Sequence[str]], rows: Rows) -> Columns:
    """Some rows."""
    return {
        "time_ns": timestamps(cells["TIMESTAMP"], rows).astype(np.int64),
        "prompt_tokens": rows.integers("ContextTokens", cells["ContextTokens"], least=1),
        "output_tokens": rows.integers("GeneratedTokens", cells["GeneratedTokens"], least=0),
    }


def timestamps(cells: Sequence[str], rows: Rows) -> np.ndarray:
    """Universal times: datetime64[ns]; rows whose time cannot be read are rejected."""
    matches = [TIMESTAMP.fullmatch(cell) for cell in cells]
    texts = [f"{match[1]}T{match[2]}" if match else "NaT" for match in matches]
    try:
        times = np.array(texts, "datetime64[ns]")
    except ValueError:  # a month 13, say: find it
        times = np.array([calendar_time(text) for text in texts], "datetime64[ns]")
    for row, match in enumerate(matches):
        if match and match[3] not in UTC:
            hours, minutes = int(match[3][1:3]), int(match[3][-2:])
            offset = np.timedelta64((hours * 60 + minutes) * (-1 if match[3][0] == "-" else 1), "m")
            times[row] -= offset
    bad = np.flatnonzero(np.isnat(times))
    for row in bad.tolist():
        rows.reject(row, f"TIMESTAMP is {shown(cells[row])}, must be like 2023-11-16 18:15:46.6805900")
    times[bad] = NO_TIME
    return times


def calendar_time(text: str) -> np.datetime64:
    """The time, or NaT when there is no such one."""
    try:
        return np.datetime64(text, "ns")
    except ValueError:
        return np.datetime64("NaT", "ns")


READER = Reader("azure", "Azure LLM inference trace CSV", lambda source: set(COLUMNS) <= set(header(source)), read)
