"""A Parquet file taken apart into columns of cells."""

from __future__ import annotations

from collections.abc import Collection

from traces.readers.rows import Cells, Rows
from traces.readers.source import Source


def parquet_cells(source: Source, rows: Rows, wanted: Collection[str]) -> tuple[dict[str, Cells], list[str]]:
    """Those of the columns `wanted` that the file has, and the names of all others.

    Numbers of 64 bits without gaps come as arrays, all else as lists. Raises ValueError when the file cannot be read.
    """
    if source.text is not None:
        raise ValueError(f"{source.path}: is not Parquet: leave trace.format out")
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        names = list(parquet.read_schema(source.path).names)
        table = parquet.read_table(source.path, columns=[name for name in names if name in wanted])
        columns: dict[str, Cells] = {}
        for name in table.column_names:
            column = table[name]
            quick = column.type in (pyarrow.int64(), pyarrow.float64()) and not column.null_count
            columns[name] = column.to_numpy() if quick else column.to_pylist()
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as problem:
        reason = (str(problem).splitlines() or ["broken"])[0]
        raise ValueError(f"{source.path}: cannot be read as Parquet: {reason}") from None
    if not table.num_rows:
        raise ValueError(f"{source.path}: no rows")
    rows.lines.extend(range(1, table.num_rows + 1))
    return columns, [name for name in names if name not in wanted]
