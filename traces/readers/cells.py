"""Text files taken apart into columns of cells, each row with its line number."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection

from traces.readers.rows import Rows
from traces.readers.source import Source


def header(source: Source) -> list[str]:
    """The names in the first line of a CSV file; [] when it is nothing of the kind."""
    try:
        return [name.strip() for name in next(csv.reader([source.first_line]), [])]
    except csv.Error:
        return []


def first_object(source: Source) -> dict[str, object]:
    """The first line of a JSONL file; {} when it is nothing of the kind."""
    if not source.first_line.startswith("{"):
        return {}
    try:
        return json.loads(source.first_line)
    except (ValueError, RecursionError):
        return {}


def csv_cells(source: Source, rows: Rows) -> dict[str, list[str]]:
    """The columns of a CSV file by the names in its header; blank lines do not count, whatever ends a line.

    A row of another width than the header's is rejected. Raises ValueError when no table can be made of it.
    """
    lines = csv.reader(io.StringIO(source.require_text("csv"), newline=""))
    table: list[str] = []  # row after row: a million small lists would keep the garbage collector busy
    names: list[str] = []
    try:
        for cells in lines:
            if not cells or (len(cells) == 1 and not cells[0].strip()):
                continue
            if not names:
                names = [name.strip() for name in cells]
                continue
            if len(cells) != len(names):
                rows.reject(len(rows), f"{len(cells)} fields, the header has {len(names)}")
                cells = (cells + [""] * len(names))[: len(names)]
            table += cells
            rows.lines.append(lines.line_num)
    except csv.Error as problem:
        raise ValueError(f"{source.path}:{lines.line_num}: {problem}") from None
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{source.path}:1: two columns are named {name!r}")
    if not table:
        raise ValueError(f"{source.path}: no rows below the header")
    return {name: table[place :: len(names)] for place, name in enumerate(names)}


def jsonl_cells(source: Source, rows: Rows, wanted: Collection[str]) -> tuple[dict[str, list[object]], list[str]]:
    """Those of the columns `wanted` that any row has (None where one has not), and the names of all others.

    A line that is no JSON object is rejected.
    """
    objects: list[dict[str, object]] = []
    for number, line in enumerate(source.require_text("jsonl").split("\n"), start=1):
        if not line.strip():
            continue
        rows.lines.append(number)
        entry: object = None
        try:
            entry = json.loads(line)
            if not isinstance(entry, dict):
                rows.reject(len(objects), "not a JSON object")
        except (ValueError, RecursionError) as problem:
            rows.reject(len(objects), f"not JSON: {problem}")
        objects.append(entry if isinstance(entry, dict) else {})
    names = dict.fromkeys(name for entry in objects for name in entry)
    columns = {name: [entry.get(name) for entry in objects] for name in names if name in wanted}
    return columns, [name for name in names if name not in wanted]
