"""Cells of a file become columns of numbers here, and a bad cell becomes a line that names file, line and remedy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from traces.distributions import MOST

Cells = Sequence[object] | np.ndarray
LONGEST = 1e20  # of times in any unit: an epoch's nanoseconds are 1e18
SURROGATE = re.compile("[\ud800-\udfff]")
INTEGER = re.compile(r"\s*[+-]?\d{1,18}\s*")


class Rows:
    """The rows of one file, some thousand at a time: where each stands, and what is wrong with it.

    `lines` are those at hand; their columns are converted whole, and a row that is bad in any of them is rejected. At the
    end of them, `finish` raises for the first rejected row when on_error = "error", and leaves them out with "skip".
    """

    def __init__(self, path: Path, on_error: str = "error") -> None:
        self.path = path
        self.on_error = on_error
        self.lines: Sequence[int | str] = []  # line of the file, from 1 (Parquet: row), and more where it holds several
        self.problems: dict[int, str] = {}  # by row, of those at hand
        self.read = 0  # rows finished
        self.malformed = 0  # of these
        self.first_problem = ""  # where the first malformed row stands, and what is wrong with it

    def __len__(self) -> int:
        return len(self.lines)

    def reject(self, row: int | np.integer, problem: str) -> None:
        """Marks a row as bad; its first problem counts."""
        self.problems.setdefault(int(row), problem)

    def unproblematic(self) -> np.ndarray:
        """Which rows have not been rejected so far: bool, one a row."""
        mask = np.ones(len(self), bool)
        mask[list(self.problems)] = False
        return mask

    def check(self) -> None:
        """Raises ValueError for the first bad row unless bad ones are skipped."""
        if self.problems and self.on_error == "error":
            row = min(self.problems)
            raise ValueError(f"{self.path}:{self.lines[row]}: {self.problems[row]}")

    def finish(self) -> np.ndarray:
        """Counts the rows at hand and makes room for the next: which are good, bool, one a row. Raises as `check`."""
        self.check()
        mask = self.unproblematic()
        self.read += len(self)
        self.malformed += len(self.problems)
        if self.problems and not self.first_problem:
            row = min(self.problems)
            self.first_problem = f"{self.path}:{self.lines[row]}: {self.problems[row]}"
        self.lines, self.problems = [], {}
        return mask

    def integers(self, name: str, cells: Cells, least: int | None = None, absent: int | None = None) -> np.ndarray:
        """A column of integers of at least `least`; `absent` stands where a cell is empty (None: it must not be)."""
        values = quick_integers(cells)
        if values is None:
            values = self._one_by_one(name, cells, integer, absent, least or 0, np.int64)
        low = np.iinfo(np.int64).min if least is None else least
        outside = (values < low) | (values > MOST) | (values < -MOST)
        if absent is not None:
            outside &= values != absent
        for row in np.flatnonzero(outside):
            right = f"at least {least}" if values[row] < low else f"at most {MOST:,}"
            self.reject(row, f"{name} is {values[row]}, must be {right}")
        return values

    def seconds(self, name: str, cells: Cells, absent: float | None = None) -> np.ndarray:
        """A column of finite times that are not negative; `absent` stands where a cell is empty or nan."""
        values = quick_floats(cells)
        if values is None:
            values = self._one_by_one(name, cells, real, absent, 0.0, np.float64)
        outside = ~(values >= 0) | (values >= LONGEST)
        if absent is not None:
            outside &= ~np.isnan(values)
        for row in np.flatnonzero(outside):
            right = "finite and not negative" if not 0 <= values[row] < math.inf else f"below {LONGEST:g}"
            self.reject(row, f"{name} is {values[row]}, must be {right}")
        return values

    def texts(self, name: str, cells: Cells) -> list[str]:
        """A column of text; "" where a cell is empty. Numbers are taken as they are written."""
        for row, cell in enumerate(cells if set(map(type, cells)) != {str} else ()):
            if not (cell is None or isinstance(cell, str | int | float)):
                self.reject(row, f"{name} must be text")
        texts = ["" if cell is None else str(cell) for cell in cells]
        if not "".join(texts).isascii():
            for row, text in enumerate(texts):
                if SURROGATE.search(text):  # JSON can escape halves of characters, which no file can hold
                    self.reject(row, f"{name} is not text: half of a character")
        return texts

    def _one_by_one(
        self,
        name: str,
        cells: Cells,
        convert: Callable[[object], float],
        absent: float | None,
        filler: float,
        kind: type,
    ) -> np.ndarray:
        values: np.ndarray = np.full(len(cells), filler, kind)
        for row, cell in enumerate(cells):
            if cell is None or cell == "":
                if absent is None:
                    self.reject(row, f"{name} is missing")
                else:
                    values[row] = absent
                continue
            try:
                values[row] = convert(cell)
            except ValueError as problem:
                self.reject(row, f"{name} {problem}")
        return values


def shown(cell: object) -> str:
    """A cell as an error message shows it."""
    text = repr(cell)
    return text if len(text) <= 40 else text[:37] + "..."


def integer(cell: object) -> int:
    """An integer, also if written as 12.0; raises ValueError for anything else."""
    if isinstance(cell, str) and INTEGER.fullmatch(cell):
        return int(cell)
    value = cell if isinstance(cell, int) and not isinstance(cell, bool) else real(cell, "an integer")
    if isinstance(value, float) and not value.is_integer():  # also nan and infinities
        raise ValueError(f"is {shown(cell)}, must be an integer")
    if abs(value) > MOST:
        raise ValueError(f"is {shown(cell)}, must be at most {MOST:,}")
    return int(value)


def real(cell: object, wanted: str = "a number") -> float:
    """A float; raises ValueError for what is not a number."""
    if isinstance(cell, str | int | float) and not isinstance(cell, bool):
        try:
            return float(cell)
        except (ValueError, OverflowError):
            pass
    raise ValueError(f"is {shown(cell)}, must be {wanted}")


def quick_integers(cells: Cells) -> np.ndarray | None:
    """The column if every cell is a plain integer, else None: then the slow way finds out what is wrong."""
    if isinstance(cells, np.ndarray):
        return cells.astype(np.int64) if cells.dtype.kind in "iu" and cells.dtype != np.uint64 else None
    kinds = set(map(type, cells))
    try:
        if kinds == {int}:
            return np.array(cells, np.int64)
        if kinds == {str} and "".join(cells).isdecimal():  # type: ignore[arg-type]
            return np.fromiter(map(int, cells), np.int64, len(cells))  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        pass
    return None


def quick_floats(cells: Cells) -> np.ndarray | None:
    """The column if every cell is a number, else None."""
    if isinstance(cells, np.ndarray):
        return cells.astype(np.float64) if cells.dtype.kind in "iuf" else None
    kinds = set(map(type, cells))
    try:
        if kinds == {str} or kinds <= {int, float}:
            return np.fromiter(map(float, cells), np.float64, len(cells))  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        pass
    return None
