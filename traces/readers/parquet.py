"""A Parquet file taken apart into columns of cells."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from traces.readers.content import Ragged
from traces.readers.rows import Cells, Rows
from traces.readers.source import Source

ROWS_AT_ONCE = 65_536


def parquet_cells(
    source: Source, rows: Rows, wanted: Collection[str], unknown: dict[str, None]
) -> Iterator[dict[str, Cells]]:
    """Those of the columns `wanted` that the file has, some rows at a time; `unknown` gathers the names of all others.

    Numbers of 64 bits without gaps come as arrays, lists of integers without gaps as `Ragged`, all else as
    lists. Raises ValueError when the file cannot be read.
    """
    if source.kind != "parquet":
        raise ValueError(f"{source.path}: is not Parquet: leave trace.format out")
    import pyarrow
    import pyarrow.parquet as parquet

    read = 0
    try:
        with parquet.ParquetFile(source.path) as file:
            names = list(file.schema_arrow.names)
            unknown.update((name, None) for name in names if name not in wanted)
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=[name for name in names if name in wanted]):
                columns: dict[str, Cells] = {}
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    columns[name] = cells(column, pyarrow)
                rows.lines = range(read + 1, read + 1 + batch.num_rows)
                read += batch.num_rows
                yield columns
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError) as problem:
        reason = (str(problem).splitlines() or ["broken"])[0]
        raise ValueError(f"{source.path}: cannot be read as Parquet, after row {read}: {reason}") from None
    if not read:
        raise ValueError(f"{source.path}: no rows")


def cells(column: Any, pyarrow: Any) -> Any:
    """A column of a pyarrow batch."""
    if column.null_count == 0:
        if column.type in (pyarrow.int64(), pyarrow.float64()):
            return column.to_numpy()
        if pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type):
            ids = column.flatten()
            if pyarrow.types.is_signed_integer(ids.type) and ids.null_count == 0:
                return Ragged(column.value_lengths().to_numpy().astype("int64"), ids.to_numpy())
    return column.to_pylist()
