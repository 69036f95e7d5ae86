"""Tables from files, and what must hold of their columns. What is wrong is a ValueError of one line, with file and row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twin.nearest import nearest

if TYPE_CHECKING:
    from pandas import DataFrame

LONGEST_STEP_S = 600.0  # a step that takes longer is not one, or its time is not in seconds
SHORTEST_STEP_S = 1e-6


def read_frame(path: Path) -> DataFrame:
    """The rows of a CSV or Parquet file."""
    import pandas
    import pyarrow

    if path.suffix == ".parquet" and not is_parquet(path):
        raise ValueError(f"{path}: not a Parquet file, whatever its name says: it does not begin with PAR1")
    try:
        if is_parquet(path):
            frame = pandas.read_parquet(path)
        else:
            frame = pandas.read_csv(path)
    except pandas.errors.EmptyDataError:
        raise ValueError(f"{path}: empty") from None
    except (pandas.errors.ParserError, UnicodeDecodeError, pyarrow.ArrowException, OSError) as error:
        kind = "Parquet" if is_parquet(path) else "CSV"
        raise ValueError(f"{path}: cannot be read as {kind}: {' '.join(str(error).split())}") from None
    if frame.empty:
        raise ValueError(f"{path}: no rows")
    return frame


def is_parquet(path: Path) -> bool:
    """By its first bytes."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def require(frame: DataFrame, names: Sequence[str], path: Path, kind: str) -> None:
    """Raises ValueError for the columns that are missing, with the name that was probably meant."""
    missing = [name for name in names if name not in frame]
    if missing:
        there = [str(name) for name in frame.columns]
        hints = "".join(nearest(name, there) for name in missing[:1]).replace("did you mean", "is it")
        raise ValueError(f"{path}: missing column {', '.join(missing)} of {kind}{hints}; it has {', '.join(there)}")


def row_word(path: Path, row: int) -> str:
    """The place of a row as an editor or pandas would call it."""
    return f"{path}, row {row}" if is_parquet(path) else f"{path}, line {row + 2}"


def numbers(frame: DataFrame, name: str, path: Path, least: float = 0.0) -> np.ndarray:
    """A column of finite numbers that are not below `least`."""
    import pandas

    values = pandas.to_numeric(frame[name], errors="coerce").to_numpy(float)
    wrong = ~np.isfinite(values) | (values < least)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{row_word(path, row)}: {name} is {frame[name].iloc[row]}; it must be a number of {least:g} or more"
        )
    return values


def whole_numbers(frame: DataFrame, name: str, path: Path) -> np.ndarray:
    """A column of counts."""
    values = numbers(frame, name, path)
    wrong = values != np.floor(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"{row_word(path, row)}: {name} is {values[row]:g}; it must be a whole number")
    return values


def seconds(frame: DataFrame, name: str, path: Path) -> np.ndarray:
    """A column of durations of steps."""
    return checked_seconds(numbers(frame, name, path), name, path)


def checked_seconds(values: np.ndarray, name: str, path: Path) -> np.ndarray:
    """The durations, if steps can last as long."""
    wrong = ~np.isfinite(values) | (values < SHORTEST_STEP_S) | (values > LONGEST_STEP_S)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{row_word(path, row)}: {name} is {values[row]:g} s; no step lasts less than {SHORTEST_STEP_S:g} s or more "
            f"than {LONGEST_STEP_S:g} s: is it in seconds?"
        )
    return values
