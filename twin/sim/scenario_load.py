"""Scenario files: one scenario in YAML, or one a line as `{"id": ..., "scenario": {...}}` in JSON lines (.gz too)."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twin.sim.scenario_file import Scenario, read_scenario


def load(path: str | Path) -> Iterator[tuple[str | None, Scenario]]:
    """The scenarios of a file, each with its id (None in a file of one). Raises ValueError, OSError."""
    path = Path(path)
    try:
        if path.name.endswith((".jsonl", ".jsonl.gz")):
            yield from _load_many(path)
        else:
            yield None, read_scenario(_read_yaml(path), str(path))
    except RecursionError as error:
        raise ValueError(f"{path}: nested too deeply for a scenario") from error


def _read_yaml(path: Path) -> Any:
    import yaml

    class StrictLoader(yaml.SafeLoader):
        """A key that stands twice in a mapping is a mistake, not the last one's victory."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for place, key in enumerate(keys):
                if key in keys[:place]:
                    line = node.value[place][0].start_mark.line + 1
                    raise ValueError(f"{path}:{line}: {key!r} stands twice")
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=StrictLoader)  # noqa: S506  (a safe loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise ValueError(f"{path}{line}: not YAML: {getattr(error, 'problem', None) or error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file ({error.reason})") from error


def _load_many(path: Path) -> Iterator[tuple[str | None, Scenario]]:
    opener = gzip.open if path.name.endswith(".gz") else open
    seen: set[str] = set()
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    name, scenario = _read_line(line, number, f"{path}:{number}")
                    if name in seen:
                        raise ValueError(f"{path}:{number}: the id {name!r} stands twice")
                    seen.add(name)
                    yield name, scenario
    except (gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a gzip file of text ({error})") from error
    if not seen:
        raise ValueError(f"{path}: no scenarios")


def _read_line(line: str, number: int, where: str) -> tuple[str, Scenario]:
    try:
        entry = json.loads(line, object_pairs_hook=lambda pairs: _without_doubles(pairs, where))
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON: {error.msg} at column {error.colno}") from error
    if not isinstance(entry, dict) or "scenario" not in entry:
        raise ValueError(f'{where}: expected {{"id": ..., "scenario": {{...}}}}')
    return str(entry.get("id", number)), read_scenario(entry["scenario"], where)


def _without_doubles(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{where}: {next(key for key in keys if keys.count(key) > 1)!r} stands twice")
    return content
