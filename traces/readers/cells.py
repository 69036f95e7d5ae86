"""Text files taken apart into columns of cells, some thousand rows at a time, each row with its line number."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, repeat

from traces.readers.rows import Rows, shown
from traces.readers.source import Source

ROWS_AT_ONCE = 65_536
OBJECTS_CHARACTERS = 8 << 20  # of JSON lines taken apart at once
KEY = re.compile(r'"([^"\\]{1,60})"\s*:')


def header(source: Source) -> list[str]:
    """The names in the first line of a CSV file; [] when it is nothing of the kind."""
    try:
        return [name.strip() for name in next(csv.reader([source.first_line]), [])]
    except csv.Error:
        return []


def first_keys(source: Source) -> set[str]:
    """The keys of the first JSON object of a text that begins with one, or with an array of them; else none.

    Of an object that goes on beyond the head of the file, all that looks like a key in the head, however deep.
    """
    head = source.head.lstrip()
    first = source.first_line
    if head.startswith("["):
        first = head = head[1:].lstrip()
    if not head.startswith("{"):
        return set()
    try:
        return set(json.JSONDecoder().raw_decode(first)[0])
    except (ValueError, RecursionError):
        return set(KEY.findall(head))


def csv_cells(source: Source, rows: Rows, required: Sequence[str], what: str) -> Iterator[dict[str, list[str]]]:
    """The columns of a CSV file by the names in its header; blank lines do not count, whatever ends a line.

    A row of another width than the header's is rejected. Raises ValueError when no table can be made of it: columns of
    `what`, which has those `required`, are missing, two have one name, there are no rows.
    """
    names = header(source)
    line, pieces = below_header(source)
    check_names(source, line - 1, names, required, what)
    begin = line
    for piece in pieces:
        table = plain_table(piece, len(names))
        if table is None:  # quotes, blank lines, rows of another width: from here on as the csv module reads it
            yield from quoted_cells(source, rows, names, line - 1, chain([piece], pieces), line > begin)
            return
        count = len(table) // len(names)
        rows.lines = range(line, line + count)
        line += count
        yield {name: table[place :: len(names)] for place, name in enumerate(names)}
    if line == begin:
        raise ValueError(f"{source.path}: no rows below the header")


def below_header(source: Source) -> tuple[int, Iterator[str]]:
    """The line below the first that is not blank, and the text from there on in pieces of whole lines."""
    pieces = source.whole_lines()
    line, text = 1, ""
    while not text:
        piece = next(pieces, None)
        if piece is None:
            return line, iter(())
        text = piece.lstrip()
        line += piece.count("\n", 0, len(piece) - len(text))
    first, end, rest = text.partition("\n")
    if first.rstrip() != source.first_line or source.first_line.count('"') % 2 or "\r" in source.first_line:
        raise ValueError(f"{source.path}:{line}: the header must be one line, of at most {len(source.head):,} characters")
    return line + 1, chain([rest] if rest else [], pieces)


def plain_table(text: str, width: int) -> list[str] | None:
    """The cells of lines that all have `width` of them and none of which is quoted, row after row; else None."""
    text = text.replace("\r\n", "\n").removesuffix("\n")
    if width < 2 or '"' in text or "\r" in text:
        return None
    if set(map(str.count, text.split("\n"), repeat(","))) != {width - 1}:
        return None
    return text.replace("\n", ",").split(",")  # a million small lists would keep the garbage collector busy


def quoted_cells(
    source: Source, rows: Rows, names: list[str], above: int, pieces: Iterator[str], any_row: bool
) -> Iterator[dict[str, list[str]]]:
    """The same of any CSV, below `above` lines, with `any_row` in them or not."""
    lines = csv.reader(chain.from_iterable(io.StringIO(piece, newline="") for piece in pieces))
    width = len(names)
    table: list[str] = []
    numbers: list[int] = []
    try:
        for cells in lines:
            if not cells or (len(cells) == 1 and not cells[0].strip()):
                continue
            if len(cells) != width:
                rows.reject(len(numbers), f"{len(cells)} fields, the header has {width}")
                cells = (cells + [""] * width)[:width]
            table += cells
            numbers.append(above + lines.line_num)
            if len(numbers) == ROWS_AT_ONCE:
                rows.lines = numbers
                yield {name: table[place::width] for place, name in enumerate(names)}
                table, numbers, any_row = [], [], True
    except csv.Error as problem:
        raise ValueError(f"{source.path}:{above + lines.line_num}: {problem}") from None
    if numbers:
        rows.lines = numbers
        yield {name: table[place::width] for place, name in enumerate(names)}
    elif not any_row:
        raise ValueError(f"{source.path}: no rows below the header")


def check_names(source: Source, line: int, names: list[str], required: Sequence[str], what: str) -> None:
    """Raises ValueError when a column is missing or there twice."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{source.path}:{line}: two columns are named {shown(name)}")
    for name in required:
        if name not in names:
            raise ValueError(f"{source.path}:{line}: no column {name}; {what} has {', '.join(required)}")


def jsonl_objects(source: Source, rows: Rows) -> Iterator[list[dict[str, object]]]:
    """The objects of a JSONL file, one a row; a line that is no JSON object is rejected and gives an empty one."""
    objects: list[dict[str, object]] = []
    numbers: list[int] = []
    size = 0
    for number, line in enumerate(source.lines(), start=1):
        if line.isspace():
            continue
        entry: object = None
        try:
            entry = json.loads(line)
            if not isinstance(entry, dict):
                rows.reject(len(objects), "not a JSON object")
        except (ValueError, RecursionError) as problem:
            rows.reject(len(objects), f"not JSON: {message(problem)}")
        objects.append(entry if isinstance(entry, dict) else {})
        numbers.append(number)
        size += len(line)
        if size > OBJECTS_CHARACTERS:
            rows.lines = numbers
            yield objects
            objects, numbers, size = [], [], 0
    if numbers:
        rows.lines = numbers
        yield objects


def jsonl_cells(
    source: Source, rows: Rows, wanted: Sequence[str], required: Sequence[str], what: str, unknown: dict[str, None]
) -> Iterator[dict[str, list[object]]]:
    """Those of the columns `wanted` that any of the rows at hand has (None where one has not); `unknown` gathers the names
    of all others.

    Raises ValueError when the first rows have nothing of a column that `what` requires.
    """
    checked = False
    for objects in jsonl_objects(source, rows):
        names = dict.fromkeys(name for entry in objects for name in entry)
        unknown.update((name, None) for name in names if name not in wanted)
        missing = [name for name in required if name not in names]
        if missing and not checked:
            rows.check()  # a first line that cannot be read is the better explanation
            raise ValueError(f"{source.path}:{rows.lines[0]}: no {missing[0]}; {what} has {', '.join(required)}")
        checked = True
        yield {name: [entry.get(name) for entry in objects] for name in wanted if name in names or name in required}


def flattened(
    rows: Rows, objects: Sequence[dict[str, object]], split: Callable[[dict[str, object]], list[dict[str, object]]]
) -> list[dict[str, object]]:
    """The rows that `split` finds in each of the objects at hand; a rejected object, or one with none, stays one row.

    `split` raises ValueError for an object that it cannot take apart, which is then rejected.
    """
    lines, problems = rows.lines, rows.problems
    rows.problems = {}
    flat: list[dict[str, object]] = []
    places: list[int | str] = []
    for place, entry in enumerate(objects):
        parts: list[dict[str, object]] = []
        if place in problems:
            rows.reject(len(flat), problems[place])
        else:
            try:
                parts = split(entry)
            except ValueError as problem:
                rows.reject(len(flat), str(problem))
        parts = parts or [{}]
        flat += parts
        several = len(parts) > 1
        places += [f"{lines[place]}, request {part + 1}" if several else lines[place] for part in range(len(parts))]
    rows.lines = places
    return flat


def message(problem: Exception) -> str:
    """What is wrong with a JSON text, with the place in it."""
    if isinstance(problem, json.JSONDecodeError):
        return f"{problem.msg} at character {problem.pos + 1}"
    return str(problem).splitlines()[0]


def named_columns(unknown: Collection[str]) -> list[str]:
    """The note of a report about columns that are not read; none for none."""
    return [f"columns ignored: {', '.join(unknown)}"] if unknown else []
