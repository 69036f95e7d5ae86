"""Results of `vllm bench serve --save-result --save-detailed`: JSON, or JSONL of several runs (--append-result).

Source: github.com/vllm-project/vllm, vllm/benchmarks/serve.py (Apache-2.0), v0.11. A run is one object; its arrays
input_lens, output_lens, start_times (s, of a clock of its own) and errors have an entry a request. Versions without
start_times tell no arrivals. Failed requests have no output.
"""

from __future__ import annotations

import numpy as np

from traces.readers.cells import first_keys
from traces.readers.documents import values
from traces.readers.reader import Columns, Reader, assembled, gathered
from traces.readers.rows import Rows
from traces.readers.sharegpt import UNTIMED
from traces.readers.source import Source
from traces.trace import Report, Trace

LENGTHS = ("input_lens", "output_lens")


def read(source: Source, rows: Rows, report: Report, *, run: int | None = None) -> Trace:
    """The trace of a run; of a file of several, `run` says which, from 1."""
    line, found = chosen(source, run)
    lists: dict[str, list] = {}
    for name in (*LENGTHS, "start_times"):
        value = found.get(name)
        if isinstance(value, list) and value:
            lists[name] = value
        elif name in LENGTHS:
            raise ValueError(f"{source.path}:{line}: no list {name}: run vllm bench serve with --save-detailed")
    sizes = {name: len(value) for name, value in lists.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise ValueError(f"{source.path}:{line}: the lists have different lengths: {listed}")
    rows.lines = [f"{line}, request {row + 1}" for row in range(len(lists["input_lens"]))]
    output_tokens = rows.integers("output_lens", lists["output_lens"], least=0)
    prompt_tokens = rows.integers("input_lens", lists["input_lens"], least=0)
    for row in np.flatnonzero((prompt_tokens == 0) & (output_tokens > 0)).tolist():
        rows.reject(row, "input_lens is 0, must be at least 1")
    columns: Columns = {
        "arrival_s": np.zeros(len(rows)),
        "prompt_tokens": np.maximum(prompt_tokens, 1),
        "output_tokens": output_tokens,
    }
    if "start_times" in lists:
        columns["arrival_s"] = rows.seconds("start_times", lists["start_times"])
    else:
        report.timed = False
        report.notes.append(UNTIMED)
    return assembled(rows, report, gathered(rows, [columns]))


def chosen(source: Source, run: int | None) -> tuple[int, dict[str, object]]:
    """The run to read, and the line on which it begins."""
    if run is not None and (isinstance(run, bool) or not isinstance(run, int) or run < 1):
        raise ValueError(f"trace.run is {run}, must be an integer of at least 1")
    kept: tuple[int, object] = (1, None)
    count = 0
    for line, value in values(source):
        count += 1
        if count == (run or 1):
            kept = line, value
    if run is None and count > 1:
        raise ValueError(f"{source.path}: holds {count} runs: say which, trace.run=1 to {count}")
    if run is not None and run > count:
        raise ValueError(f"{source.path}: trace.run is {run}, the file holds {count} runs")
    if not isinstance(kept[1], dict):
        raise ValueError(f"{source.path}:{kept[0]}: must be an object")
    return kept[0], kept[1]


def recognises(source: Source) -> bool:
    """Whether a text begins with a run."""
    keys = first_keys(source)
    return "input_lens" in keys or {"total_input_tokens", "completed"} <= keys


READER = Reader("vllm", "vLLM bench serve results", recognises, read)
