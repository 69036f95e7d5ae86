"""requests.parquet and steps.parquet."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from twin.results.columns import MORE_STEPS, REQUESTS, STEPS, Column, Table

if TYPE_CHECKING:
    import pyarrow

ROW_GROUP = 1 << 17  # rows
UNIQUE = ("request_id",)  # texts of which no two are alike


def requests_table(requests: Table) -> "pyarrow.Table":
    """The requests as an Arrow table with exactly the columns of CONTRACT section 3; null for what never happened."""
    return _arrow(REQUESTS, requests)


def steps_table(steps: Table) -> "pyarrow.Table":
    """The steps as an Arrow table, likewise; behind them what a real engine measured beside."""
    return _arrow(STEPS | {name: column for name, column in MORE_STEPS.items() if name in steps}, steps)


def write_parquet(table: "pyarrow.Table", handle: BinaryIO) -> None:
    """In row groups, so that a reader need not hold the whole. Equal tables give equal bytes: no time stamp, no index.

    Stamps and durations differ from row to row, so that a dictionary of them is made for nothing; with their bytes
    side by side, and of whole numbers the differences, a file is a fifth smaller and written in two thirds of the time.
    """
    from pyarrow import parquet, types

    floats, integers, texts = (
        [field.name for field in table.schema if is_kind(field.type)]
        for is_kind in (types.is_floating, types.is_integer, types.is_string)
    )
    parquet.write_table(
        table,
        handle,
        compression="zstd",
        row_group_size=ROW_GROUP,
        use_dictionary=[name for name in texts if name not in UNIQUE],
        column_encoding={**dict.fromkeys(floats, "BYTE_STREAM_SPLIT"), **dict.fromkeys(integers, "DELTA_BINARY_PACKED")},
    )


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
            arrays.append(_strings(values.tolist()))
        elif column.kind == "float":
            buffers = [_bits(~np.isnan(values)), arrow.py_buffer(values)]
            arrays.append(arrow.Array.from_buffers(arrow.float64(), len(values), buffers))
        else:
            arrays.append(arrow.Array.from_buffers(arrow.int64(), len(values), [None, arrow.py_buffer(values)]))
    return arrow.Table.from_arrays(arrays, names=list(columns))


def _strings(values: list[str | None]) -> "pyarrow.Array":
    """Arrow's layout of strings: which are given, int32 offsets of n + 1 bounds, and all their bytes in UTF-8."""
    import pyarrow as arrow

    known, texts = None, values
    if None in values:
        known = _bits(np.array([value is not None for value in values], dtype=bool))
        texts = [value or "" for value in values]
    offsets = np.zeros(len(texts) + 1, dtype=np.int32)
    np.cumsum(_lengths(texts), out=offsets[1:])  # type: ignore[arg-type]
    data = "".join(texts).encode()  # type: ignore[arg-type]
    return arrow.Array.from_buffers(arrow.string(), len(texts), [known, arrow.py_buffer(offsets), arrow.py_buffer(data)])


def _lengths(texts: list[str]) -> np.ndarray:
    """Bytes of each text in UTF-8. Many columns say one thing throughout."""
    if texts and texts.count(texts[0]) == len(texts):
        return np.full(len(texts), len(texts[0].encode()))
    if all(map(str.isascii, texts)):
        return np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return np.array([len(text.encode()) for text in texts])


def _bits(known: np.ndarray) -> "pyarrow.Buffer | None":
    """Arrow's bitmap of what is not null; None where nothing is."""
    import pyarrow as arrow

    return None if known.all() else arrow.py_buffer(np.packbits(known, bitorder="little"))


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
