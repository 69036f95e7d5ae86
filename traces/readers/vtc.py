"""Results of the VTC artifact: one JSON object with config and result.responses, an entry a request.

Source: github.com/Ying1123/VTC-artifact, fair_bench/ (Apache-2.0); Sheng et al., "Fairness in Serving Large Language
Models", OSDI 2024. req_time is in seconds, of a day of the LMSYS arena squeezed to 10 minutes; adapter_dir is the client.
"""

from __future__ import annotations

from traces.readers.cells import first_keys
from traces.readers.documents import values
from traces.readers.reader import Columns, Reader, assembled, gathered
from traces.readers.rows import Rows
from traces.readers.source import Source
from traces.trace import Report, Trace


def read(source: Source, rows: Rows, report: Report) -> Trace:
    """The trace; a client becomes a user."""
    line, document = next(values(source), (1, None))
    result = document.get("result") if isinstance(document, dict) else None
    responses = result.get("responses") if isinstance(result, dict) else None
    if not isinstance(responses, list) or not responses:
        raise ValueError(f"{source.path}:{line}: no list result.responses")
    rows.lines = [f"{line}, request {row + 1}" for row in range(len(responses))]
    entries: list[dict] = []
    for row, entry in enumerate(responses):
        if not isinstance(entry, dict):
            rows.reject(row, "must be an object")
        entries.append(entry if isinstance(entry, dict) else {})
    columns: Columns = {
        "arrival_s": rows.seconds("req_time", [entry.get("req_time") for entry in entries]),
        "prompt_tokens": rows.integers("prompt_len", [entry.get("prompt_len") for entry in entries], least=1),
        "output_tokens": rows.integers("output_len", [entry.get("output_len") for entry in entries], least=0),
        "user": rows.texts("adapter_dir", [entry.get("adapter_dir") for entry in entries]),
    }
    return assembled(rows, report, gathered(rows, [columns]))


READER = Reader("vtc", "VTC results JSON", lambda source: {"config", "result"} <= first_keys(source), read)
