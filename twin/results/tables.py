"""requests.parquet and steps.parquet."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

from twin.results.columns import REQUESTS, STEPS, Column, Table

if TYPE_CHECKING:
    import pyarrow


def requests_table(requests: Table) -> "pyarrow.Table":
    """The requests as an Arrow table with exactly the columns of CONTRACT section 3; null for what never happened."""
    return _arrow(REQUESTS, requests)


def steps_table(steps: Table) -> "pyarrow.Table":
    """The steps as an Arrow table, likewise."""
    return _arrow(STEPS, steps)


def write_parquet(table: "pyarrow.Table", handle: BinaryIO) -> None:
    """Equal tables give equal bytes: there is no time stamp and no index in the file."""
    from pyarrow import parquet

    parquet.write_table(table, handle, compression="zstd")


def read_parquet(path: str, columns: Mapping[str, Column]) -> Table:
    """The table of a file as arrays, null as nan or None. Raises OSError or ValueError, pyarrow's own too."""
    from pyarrow import parquet

    found = parquet.read_table(path)
    missing = [name for name in columns if name not in found.column_names]
    if missing:
        raise ValueError(f"no column {', '.join(missing)}")
    return {name: _array(found.column(name), column.kind) for name, column in columns.items()}


def _arrow(columns: Mapping[str, Column], table: Table) -> "pyarrow.Table":
    import pyarrow as arrow

    types = {"float": arrow.float64(), "int": arrow.int64(), "str": arrow.string()}
    return arrow.table({
        name: arrow.array(table[name], type=types[column.kind], from_pandas=column.kind != "int")
        for name, column in columns.items()
    })  # fmt: skip


def _array(column: "pyarrow.ChunkedArray", kind: str):  # type: ignore[no-untyped-def]
    if kind == "str":
        return column.combine_chunks().to_numpy(zero_copy_only=False)
    return column.to_numpy()
