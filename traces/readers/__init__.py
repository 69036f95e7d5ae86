"""Traces that are read from files. One module a source, which adds its `Reader`s to the table here.

A reader recognises its files by their content; `trace.format` names it instead.
"""

from __future__ import annotations

from traces.readers import (
    agents,
    azure,
    bailian,
    burstgpt,
    llmservingsim,
    mooncake,
    prompts,
    servegen,
    sharegpt,
    table,
    vllm,
    vtc,
)
from traces.readers.reader import Reader
from traces.readers.source import Source
from traces.trace import Trace

READERS: dict[str, Reader] = {
    reader.format: reader
    for reader in (
        azure.READER,
        burstgpt.READER,
        bailian.READER,  # before mooncake: its rows have all of theirs
        mooncake.READER,
        agents.READER,
        llmservingsim.READER,
        sharegpt.READER,
        vllm.READER,
        vtc.READER,
        prompts.BATCH,
        prompts.DATASET,
        servegen.READER,
        table.CSV,
        table.JSONL,
        table.PARQUET,
    )
}


def read_file(path: str, format: str | None = None, on_error: str = "error", **options: object) -> Trace:
    """The trace in the file `path`; `options` are the reader's own.

    Raises ValueError with one line: `path:line: what is wrong`. Rows dropped, and why, are in the trace's report.
    """
    if format is not None and format not in READERS:
        raise ValueError(f"there is no trace.format={format}; there are {', '.join(READERS)}")
    source = Source.load(path)
    if format is not None:
        return READERS[format].open(source, on_error, options)
    for reader in READERS.values():
        if reader.recognises(source):
            return reader.open(source, on_error, options)
    if source.kind == "folder":
        raise ValueError(f"trace.path={path}: is a folder, and holds no files of a known format that come in folders")
    known = "; ".join(f"{reader.format}: {reader.about}" for reader in READERS.values())
    raise ValueError(f"{source.path}:1: begins like no known format ({source.first_line[:60]!r}); known are {known}")
