"""The files of a recorded run, found by what is in them, and their rows; what is wrong is told with file and line."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from engine.ground_truth.recording import RecordingError
from twin.nearest import nearest

REQUESTS, STEPS, PARTS, PROMPTS, SETTINGS = "requests", "steps", "parts", "prompts", "settings"
TELLING = {  # kind of file: the columns or keys by which it is known; two of them are enough
    REQUESTS: {"request_id", "arrival_s", "added_s", "output_tokens", "first_token_s", "finish_s"},
    STEPS: {"start_s", "end_s", "schedule_s", "model_s", "update_s", "gap_before_s", "free_blocks"},
}
WHAT = {
    REQUESTS: "requests (a CSV with request_id, arrival_s, added_s, ...)",
    STEPS: "steps (a CSV with start_s, end_s, ...)",
    PARTS: "what each request got in each step (JSON lines with parts)",
    SETTINGS: "settings (JSON with max_num_seqs, block_size, ...)",
}
MOST_HEAD = 1 << 20  # characters of the first line that are looked at


class Line(NamedTuple):
    """A row, and where it stands."""

    values: Mapping[str, Any]
    place: str


def found(folder: Path) -> dict[str, Path]:
    """The files of a run in this folder, by kind; empty if there are none. Raises RecordingError for two of a kind."""
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        kind = _kind(path) if path.is_file() and not path.name.startswith(".") else None
        if kind in files:
            raise RecordingError(f"{folder}: two files of {kind}: {files[kind].name} and {path.name}; keep one of them")
        if kind is not None:
            files[kind] = path
    return files


def _kind(path: Path) -> str | None:
    """By its first line, or, of a JSON file, by its keys."""
    try:
        with path.open(encoding="utf-8") as file:
            head = file.readline(MOST_HEAD)
    except UnicodeDecodeError:
        return None
    if head.lstrip().startswith("{"):
        return _kind_of_json(path, head)
    columns = {name.strip() for name in head.split(",")}
    for kind, telling in TELLING.items():
        if len(columns & telling) >= 2:
            return kind
    return None


def _kind_of_json(path: Path, head: str) -> str | None:
    keys = _keys(head)
    if keys is None:  # not one object a line
        text = path.read_text(encoding="utf-8", errors="replace")
        keys = _keys(text)
        if keys is None:  # cut off: by what is still there
            keys = {word for word in ("parts", "token_s", "prompt_ids", "max_num_seqs") if f'"{word}"' in text}
    if "parts" in keys:
        return PARTS
    if "token_s" in keys:
        return None  # when each token came: nothing is made of it
    if "prompt_ids" in keys or {"request_id", "prompt_tokens"} <= keys:
        return PROMPTS
    return SETTINGS if {"max_num_seqs", "max_num_batched_tokens"} & keys else None


def _keys(text: str) -> set[str] | None:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return set(content) if isinstance(content, dict) else set()


def csv_lines(path: Path, columns: tuple[str, ...], kind: str) -> Iterator[Line]:
    """The rows of a CSV file that must have these columns."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = csv.reader(file)
        try:
            yield from _rows(path, rows, columns, kind)
        except csv.Error as error:
            raise RecordingError(f"{path}, line {rows.line_num}: {error}") from None


def _rows(path: Path, rows: Any, columns: tuple[str, ...], kind: str) -> Iterator[Line]:
    head = [name.strip() for name in next(rows, [])]
    missing = [name for name in columns if name not in head]
    if missing:
        hint = nearest(missing[0], head).replace("did you mean", "is it")
        raise RecordingError(f"{path}: no column {', '.join(missing)}, which a table of {kind} needs{hint}")
    for row in rows:
        if not row:
            continue
        place = f"{path}, line {rows.line_num}"
        if len(row) != len(head):
            raise RecordingError(f"{place}: {len(row)} values for {len(head)} columns; is the file cut off?")
        yield Line(dict(zip(head, row, strict=True)), place)


def json_lines(path: Path) -> Iterator[Line]:
    """The objects of a file of JSON lines."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            place = f"{path}, line {number}"
            try:
                content = json.loads(text)
            except (ValueError, RecursionError):
                raise RecordingError(f"{place}: not JSON; is the file cut off?") from None
            if not isinstance(content, dict):
                raise RecordingError(f"{place}: must be an object, {{...}}")
            yield Line(content, place)


def json_object(path: Path) -> dict[str, Any]:
    """A file that is one object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise RecordingError(f"{path}: not JSON; is the file cut off?") from None
    if not isinstance(content, dict):
        raise RecordingError(f"{path}: must be an object, {{...}}")
    return content


def seconds(line: Line, name: str) -> float:
    """A time of at least 0."""
    value = number(line, name)
    if value < 0:
        raise RecordingError(f"{line.place}: {name} is {value:g}; times begin at 0")
    return value


def number(line: Line, name: str) -> float:
    given = line.values[name]
    try:
        value = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        what = "empty" if given in ("", None) else repr(given)
        raise RecordingError(f"{line.place}: {name} is {what}; it must be a number")
    return value


def count(line: Line, name: str, least: int = 0) -> int:
    value = number(line, name)
    if value != int(value) or value < least:
        raise RecordingError(f"{line.place}: {name} is {line.values[name]}; it must be a whole number of at least {least}")
    return int(value)


def given(line: Line, name: str) -> bool:
    """Whether this row says anything of that."""
    return line.values.get(name) not in (None, "")
