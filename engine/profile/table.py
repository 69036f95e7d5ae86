"""The table of a profile, a row a measured step, and the files it is written to."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as arrow
from pyarrow import parquet

from engine.errors import EngineError
from engine.profile.measure import Profile, Row
from twin.results.atomic import writing

METADATA_KEY = b"twin.profile"  # of the Parquet file's own metadata
SIDECAR = ".meta.json"  # behind the name of a CSV file
SUFFIXES = (".parquet", ".csv")
Columns = dict[str, list[Any]]


class Column(NamedTuple):
    kind: str  # int, float, bool or string
    unit: str
    meaning: str


COLUMNS: dict[str, Column] = {
    "point": Column("int", "", "number of the composition: rows with the same one are repeats"),
    "repeat": Column("int", "", "which repeat, from 0"),
    "order": Column("int", "", "place in the run, from 0: repeats are interleaved"),
    "started_s": Column("float", "s", "when, since the run began"),
    "kind": Column("string", "", "decode, prefill, mixed or swap"),
    "decode_context": Column("int", "tokens", "context of each decode after the step"),
    "chunk": Column("int", "tokens", "of each prompt that the step computes"),
    "chunk_before": Column("int", "tokens", "of each prompt that were computed before the step"),
    "swapped_out_blocks": Column("int", "blocks", "sent to the host before the step computes"),
    "swapped_in_blocks": Column("int", "blocks", "brought back from the host before the step computes"),
    "copies": Column("int", "", "in which these blocks cross the link: consecutive ones go together"),
    "sequences": Column("int", "", "in the step: decodes and parts of prompts"),
    "prefill_tokens": Column("int", "tokens", "of prompts in the step"),
    "decode_tokens": Column("int", "tokens", "decodes in the step, one token each"),
    "context_tokens": Column("int", "tokens", "sum over all sequences of the context after the step"),
    "prefill_context_tokens": Column("int", "tokens", "the same over the parts of prompts"),
    "prefill_attention": Column("float", "tokens^2", "sum over the parts of prompts of chunk * (chunk_before + chunk / 2)"),
    "prefill_sequences": Column("int", "", "parts of prompts in the step"),
    "duration_s": Column("float", "s", "the whole step, from its preparation on the host to its tokens on the host"),
    "device_s": Column("float", "s", "of these the device's, by two events on it; on a CPU the computation"),
    "host_s": Column("float", "s", "duration_s - device_s: what the host adds before and after"),
    "launch_s": Column("float", "s", "until all of the step is launched; on a CPU it is computed by then"),
    "settled_s": Column("float", "s", "until blocks that were swapped out are on the host too"),
    "spread": Column("float", "", "of duration_s over the repeats: sample standard deviation / mean; null for one repeat"),
    "contaminated": Column("bool", "", "the time is not to be trusted"),
    "reason": Column("string", "", "why not; null where it is not contaminated"),
}


def columns(profile: Profile) -> Columns:
    """The rows in the order of the run, a list a column."""
    spreads = profile.spreads()
    table: Columns = {name: [] for name in COLUMNS}
    for row, reasons in zip(profile.rows, profile.reasons(), strict=True):
        for name, value in _values(row, spreads[row.point], reasons).items():
            table[name].append(value)
    return table


def _values(row: Row, spread: float | None, reasons: list[str]) -> dict[str, Any]:
    point, timing = row.composition, row.timing
    return {
        "point": row.point,
        "repeat": row.repeat,
        "order": row.order,
        "started_s": row.started_s,
        "kind": point.kind,
        "decode_context": point.decode_context,
        "chunk": point.chunk,
        "chunk_before": point.chunk_before,
        "swapped_out_blocks": point.blocks_out,
        "swapped_in_blocks": point.blocks_in,
        **point.features._asdict(),
        **timing._asdict(),
        "host_s": timing.duration_s - timing.device_s,
        "spread": spread,
        "contaminated": bool(reasons),
        "reason": "; ".join(reasons) or None,
    }


def check_names(paths: list[Path]) -> None:
    """EngineError unless each name says which kind of file it is to be."""
    for path in paths:
        if path.suffix not in SUFFIXES:
            raise EngineError(f"profile.to={path}: the name must end in {' or '.join(SUFFIXES)}")


def write(path: Path, table: Columns, metadata: Mapping[str, Any]) -> None:
    """One file by its name, whole or not at all; the metadata lie in a Parquet file, and beside a CSV file.

    Raises twin.results.atomic.OutputError.
    """
    described = {**metadata, "columns": {name: column._asdict() for name, column in COLUMNS.items()}}
    if path.suffix == ".parquet":
        kinds = {"int": arrow.int64(), "float": arrow.float64(), "bool": arrow.bool_(), "string": arrow.string()}
        schema = arrow.schema(
            [(name, kinds[column.kind]) for name, column in COLUMNS.items()], {METADATA_KEY: json.dumps(described).encode()}
        )
        with writing(path) as handle:
            parquet.write_table(arrow.table(table, schema=schema), handle, compression="zstd")
        return
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    lines.writerows(zip(*(table[name] for name in COLUMNS), strict=True))
    with writing(path.with_name(path.name + SIDECAR)) as handle:
        handle.write((json.dumps(described, indent=2) + "\n").encode())
    with writing(path) as handle:
        handle.write(text.getvalue().encode())
