"""Traces that no generator makes: columns that an experiment has drawn itself, as a file that a run reads."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def folder_of(traces: Mapping[str, Mapping[str, Sequence[Any]]]) -> Iterator[dict[str, dict[str, Any]]]:
    """For each named table the options that play it; the files are there as long as the block lasts.

    Columns are those of the project's own JSON lines: arrival_s in seconds, prompt_tokens, output_tokens, user,
    prefix_hashes (with hash_block_tokens), ...
    """
    with tempfile.TemporaryDirectory() as folder:
        options = {}
        for name, columns in traces.items():
            path = Path(folder) / f"{name}.jsonl"
            rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
            options[name] = {"trace": "file", "trace.path": str(path)}
        yield options
