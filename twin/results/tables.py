"""requests.parquet and steps.parquet."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from twin.results.columns import MORE_STEPS, REQUESTS, STEPS, Column, Table

if TYPE_CHECKING:
    import pyarrow


def requests_table(requests: Table) -> "pyarrow.Table":
    """The requests as an Arrow table with exactly the columns of CONTRACT section 3; null for what never happened."""
    return _arrow(REQUESTS, requests)


def steps_table(steps: Table) -> "pyarrow.Table":
    """The steps as an Arrow table, likewise; behind them what a real engine measured beside."""
    return _arrow(STEPS | {name: column for name, column in MORE_STEPS.items() if name in steps}, steps)


def write_parquet(table: "pyarrow.Table", handle: BinaryIO) -> None:
    """Equal tables give equal bytes: there is no time stamp and no index in the file."""
    from pyarrow import parquet

    parquet.write_table(table, handle, compression="zstd")


def read_parquet(path: str, columns: Mapping[str, Column]) -> Table:
    """The table of a file as arrays, null as nan or None. Raises OSError or ValueError, pyarrow's own too."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        found = file.read()
    missing = [name for name in columns if name not in found.column_names]
    if missing:
        raise ValueError(f"no column {', '.join(missing)}")
    return {name: _array(found.column(name), column.kind) for name, column in columns.items()}


def _arrow(columns: Mapping[str, Column], table: Table) -> "pyarrow.Table":
    """Arrow arrays over the columns' own memory: `pyarrow.array` would import pandas, half a second, for nothing."""
    import pyarrow as arrow

    arrays = []
    for name, column in columns.items():
        values = np.ascontiguousarray(table[name])
        if column.kind == "str":
            known, *data = _strings(values)
            kind = arrow.string()
        else:
            known, data = ~np.isnan(values) if column.kind == "float" else np.ones(len(values), dtype=bool), [values]
            kind = arrow.float64() if column.kind == "float" else arrow.int64()
        bits = None if known.all() else arrow.py_buffer(np.packbits(known, bitorder="little"))
        buffers = [bits, *(arrow.py_buffer(part) for part in data)]
        arrays.append(arrow.Array.from_buffers(kind, len(values), buffers))
    return arrow.Table.from_arrays(arrays, names=list(columns))


def _strings(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, bytes]:
    """Arrow's layout of strings: which are given, int32 offsets of n + 1 bounds, and all their bytes in UTF-8."""
    texts = [b"" if value is None else str(value).encode() for value in values]
    known = np.array([value is not None for value in values], dtype=bool)
    offsets = np.zeros(len(texts) + 1, dtype=np.int32)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return known, offsets, b"".join(texts)


def _array(column: "pyarrow.ChunkedArray", kind: str) -> np.ndarray:
    """The way back, likewise without pandas. Raises ValueError for a column of another type."""
    import pyarrow as arrow

    types = {"float": arrow.float64(), "int": arrow.int64(), "str": arrow.string()}
    if column.type != types[kind]:
        raise ValueError(f"a column is {column.type}, not {types[kind]}")
    whole = arrow.concat_arrays(column.chunks) if column.num_chunks else arrow.array([], type=column.type)
    if kind == "str":
        texts = np.empty(len(whole), dtype=object)
        texts[:] = whole.to_pylist()
        return texts
    bits, data = whole.buffers()
    values = np.frombuffer(data, dtype=np.float64 if kind == "float" else np.int64)[whole.offset :][: len(whole)].copy()
    if bits is not None and kind == "float":
        known = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")[whole.offset :][: len(whole)]
        values[known == 0] = np.nan
    return values
