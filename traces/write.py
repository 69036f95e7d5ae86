"""A trace as a file of the project's own table, which `trace=file` reads back bit for bit."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from traces.trace import Trace


def write_trace(trace: Trace, path: str | Path) -> None:
    """Writes CSV or Parquet, by the ending of `path`, whole or not at all (temporary name, then rename).

    Raises ValueError for another ending, for a closed loop, whose arrivals depend on the run, and for CSV when the
    trace says who shares prefixes, which CSV cannot hold; OSError when the place cannot be written.
    """
    path = Path(path)
    writers: dict[str, Callable[[Trace, Path], None]] = {".csv": write_csv, ".parquet": write_parquet}
    if path.suffix not in writers:
        raise ValueError(f"{path}: the name of a trace must end in {' or '.join(writers)}")
    if trace.closed is not None:
        raise ValueError(f"trace {trace.name}: a closed loop has no arrival times to write")
    if path.suffix == ".csv" and trace.prefix is not None:
        raise ValueError(f"{path}: CSV cannot hold who shares prefixes: write .parquet")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        writers[path.suffix](trace, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_csv(trace: Trace, path: Path) -> None:
    """Floats with the digits that give the same float back; cells that are not given are empty."""
    columns = trace.columns()
    cells: list[list[object]] = []
    for name, values in columns.items():
        if isinstance(values, list):
            cells.append(list(values))
        elif values.dtype.kind == "f":
            cells.append([repr(value) if value == value else "" for value in values.tolist()])
        else:
            cells.append([value if name != "max_tokens" or value >= 0 else "" for value in values.tolist()])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*cells, strict=True))


def write_parquet(trace: Trace, path: Path) -> None:
    """Content ids as a column of lists, `prefix_hashes`, with `hash_block_tokens` beside it."""
    import pyarrow
    import pyarrow.parquet as parquet

    columns: dict[str, object] = {}
    for name, values in trace.columns().items():
        gaps = values < 0 if isinstance(values, np.ndarray) and name == "max_tokens" else None
        columns[name] = pyarrow.array(values, mask=gaps)
    if trace.prefix is not None:
        lists = pyarrow.LargeListArray.from_arrays(trace.prefix.offsets, trace.prefix.ids)
        columns["prefix_hashes"] = lists
        columns["hash_block_tokens"] = pyarrow.array(np.full(len(trace), trace.prefix.hash_block_tokens))
    parquet.write_table(pyarrow.table(columns), path)
