"""Request logs in files: the contract's columns, foreign ones, and any other by a map of its columns."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from twin.calibrate.requests.foreign import translated
from twin.calibrate.requests.log import COLUMNS, REQUIRED, STAMPS, RequestLog, make_log

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
SINCE_ARRIVAL = {"ttft": "first_token_s", "e2e": "finish_s"}  # durations that a column map may give in place of stamps
EMPTY = ("", "null", "none", "nan", "na")

Table = dict[str, list[Any]]


def read_log(path: Path, columns: str = "", prompts: Path | None = None) -> RequestLog:
    """The log in a CSV, Parquet, JSONL or JSON file; `columns` is a map "arrival_s:t0,finish_ms:end" to its own names.

    `prompts` is a JSONL file with the token ids of each request's prompt, in the log's order. Raises ValueError, one line.
    """
    if not path.is_file():
        raise ValueError(f"requests={path}: no such file")
    table, rows = read_table(path)
    mapping = column_map(columns, table)
    values = {name: table[column] for name, column in mapping.items()} if mapping else translated(str(path), table)
    return assembled(path, values, rows, read_prompts(prompts) if prompts else values.get("prompt_ids"))


def read_table(path: Path) -> tuple[Table, list[int]]:
    """Cells by column, and the row of the file each stands in (from 1; in text files its line)."""
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        try:
            table = pyarrow.parquet.read_table(path).to_pydict()
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{path}: not Parquet: {' '.join(str(error).split())}") from None
        return table, list(range(1, 1 + len(next(iter(table.values()), []))))
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    if path.suffix == ".json":
        return bench_table(path, text), []
    if text.lstrip().startswith("{"):
        return jsonl_table(path, text)
    reader = csv.DictReader(text.splitlines())
    cells: Table = {name: [] for name in reader.fieldnames or []}
    rows = []
    for row in reader:
        if None in row or None in row.values():
            raise ValueError(f"{path}, line {reader.line_num}: not as many cells as the header has columns")
        rows.append(reader.line_num)
        for name, cell in row.items():
            cells[name].append(cell)
    return cells, rows


def jsonl_table(path: Path, text: str) -> tuple[Table, list[int]]:
    """The objects of a JSONL file as columns; what one lacks is empty."""
    objects, rows = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        entry = parsed(path, line, number)
        if not isinstance(entry, dict):
            raise ValueError(f"{path}, line {number}: not a JSON object")
        objects.append(entry)
        rows.append(number)
    names = dict.fromkeys(name for entry in objects for name in entry)
    return {name: [entry.get(name) for entry in objects] for name in names}, rows


def bench_table(path: Path, text: str) -> Table:
    """One JSON object whose lists hold a value a request, as `vllm bench serve --save-detailed` writes."""
    entry = parsed(path, text, 1)
    if not isinstance(entry, dict):
        raise ValueError(f"{path}: not a JSON object with lists of a value a request")
    return {name: value for name, value in entry.items() if isinstance(value, list)}


def parsed(path: Path, text: str, number: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}, line {number}: not JSON ({error})") from None


def column_map(text: str, table: Table) -> dict[str, str]:
    """{name of ours: name of the file's}; a name of ours may end in _ms, _us or _ns for another unit."""
    found = {}
    for part in text.split(",") if text else []:
        name, colon, column = (piece.strip() for piece in part.partition(":"))
        stem, _, unit = name.rpartition("_")
        known = name in COLUMNS or (unit in UNITS and (f"{stem}_s" in STAMPS or stem in SINCE_ARRIVAL))
        if not colon or not known:
            right = f"{', '.join(COLUMNS)}, ttft_s, e2e_s; _ms, _us or _ns in place of _s for other units"
            raise ValueError(f"columns={part.strip()}: must be OURS:THEIRS, ours being one of {right}")
        if column not in table:
            raise ValueError(f"columns={part.strip()}: the file has no column {column}; it has {', '.join(table)}")
        found[name] = column
    return found


def assembled(path: Path, given: Mapping[str, Sequence[Any]], rows: list[int], prompts: Any) -> RequestLog:
    """Numbers out of the cells, units and durations resolved, missing columns named."""
    count = len(next(iter(given.values()), []))
    rows = rows or list(range(1, count + 1))
    values: dict[str, np.ndarray] = {}
    for name, cells in given.items():
        stem, _, unit = name.rpartition("_")
        if name in ("prompt_tokens", "output_tokens"):
            values[name] = numbers(path, name, cells, rows, least=1)
        elif unit in UNITS and f"{stem}_s" in STAMPS or stem in SINCE_ARRIVAL:
            values[f"{stem}_s"] = numbers(path, name, cells, rows) * UNITS[unit]
    for stem, stamp in SINCE_ARRIVAL.items():
        if f"{stem}_s" in values and "arrival_s" in values:
            values.setdefault(stamp, values["arrival_s"] + values[f"{stem}_s"])
    missing = [name for name in REQUIRED if name not in values]
    if missing:
        raise ValueError(
            f"{path}: no column {', '.join(missing)}; a log has {', '.join(COLUMNS)} (yours: columns=arrival_s:NAME,...)"
        )
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        if empty := np.flatnonzero(np.isnan(values[name])).tolist():
            raise ValueError(f"{path}, row {rows[empty[0]]}: {name} is empty; only stamps after the arrival may be")
    for name in ("prompt_tokens", "output_tokens"):
        if broken := np.flatnonzero(values[name] != np.floor(values[name])).tolist():
            raise ValueError(f"{path}, row {rows[broken[0]]}: {name} is {values[name][broken[0]]:g}, must be a whole number")
    ids = [str(cell) for cell in given.get("request_id", range(count))]
    check_ids(path, ids, rows)
    return make_log(str(path), values, ids, rows, checked_prompts(path, prompts, values["prompt_tokens"], rows))


def check_ids(path: Path, ids: Sequence[str], rows: list[int]) -> None:
    """Each request once: a line that was logged twice would load the simulated system twice."""
    seen: dict[str, int] = {}
    for place, name in enumerate(ids):
        if name in seen:
            raise ValueError(f"{path}, row {rows[place]}: request_id {name} again, as in row {rows[seen[name]]}")
        seen[name] = place


def numbers(path: Path, name: str, cells: Sequence[Any], rows: list[int], least: float | None = None) -> np.ndarray:
    """The cells as floats, nan where empty; dates become seconds."""
    found = np.empty(len(cells))
    for place, cell in enumerate(cells):
        try:
            found[place] = number(cell)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{path}, row {rows[place]}: {name} is {str(cell)[:40]!r}, not a number") from None
        if np.isinf(found[place]) or (least is not None and found[place] < least):
            right = "finite" if np.isinf(found[place]) else f"at least {least:g}"
            raise ValueError(f"{path}, row {rows[place]}: {name} is {cell}, must be {right}")
    return found


def number(cell: Any) -> float:
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in EMPTY):
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        return datetime.fromisoformat(cell.strip()).timestamp()
    except TypeError:
        return float(cell.timestamp())


def read_prompts(path: Path) -> list[Any]:
    """Token ids a line: a list, or an object with `prompt_ids`, `prompt_token_ids` or `input_tok_ids`."""
    if not path.is_file():
        raise ValueError(f"prompts={path}: no such file")
    found = []
    for place, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        entry = parsed(path, line, place)
        if isinstance(entry, dict):
            entry = next((entry[key] for key in ("prompt_ids", "prompt_token_ids", "input_tok_ids") if key in entry), None)
        if not isinstance(entry, list):
            raise ValueError(f"{path}, line {place}: no token ids; a line has a list of them, or an object with prompt_ids")
        found.append(entry)
    return found


def checked_prompts(path: Path, prompts: Any, lengths: np.ndarray, rows: list[int]) -> list[Any] | None:
    """Token ids that fit the lengths of the log, or None where there are none."""
    if prompts is None or all(entry is None for entry in prompts):
        return None
    if len(prompts) != len(lengths):
        raise ValueError(f"{path}: {len(lengths):,} requests, but the prompts of {len(prompts):,}")
    found = [entry or [] for entry in prompts]
    for place, (entry, length) in enumerate(zip(found, lengths, strict=True)):
        if entry and len(entry) != length:
            raise ValueError(
                f"{path}, row {rows[place]}: prompt_tokens is {length:g}, and the prompt has {len(entry)} token ids"
            )
    return found
