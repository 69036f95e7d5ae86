"""Reads a run folder back."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from twin.results import columns, folder
from twin.results.atomic import reason
from twin.results.columns import Table


class RunError(ValueError):
    """A folder is not that of a run, or a file of it cannot be read; its text is one line."""


class Run(NamedTuple):
    """What `twin run` left, as it was: null is None in the summary, nan or None in the tables."""

    config: dict[str, Any]
    summary: dict[str, Any]
    requests: Table
    steps: Table


def load_run(path: str | Path) -> Run:
    """The four files of a run folder. Raises RunError for a missing or a damaged one."""
    path = Path(path)
    if not path.is_dir():
        raise RunError(f"{path}: there is no such folder; give the folder that `twin run` wrote")
    for name in (folder.CONFIG, folder.SUMMARY, folder.REQUESTS, folder.STEPS):
        if not (path / name).is_file():
            raise RunError(f"{path} is not the folder of a run: {name} is missing")
    config = _config(path / folder.CONFIG)
    summary = _summary(path / folder.SUMMARY)
    return Run(config, summary, _table(path / folder.REQUESTS, columns.REQUESTS),
               _table(path / folder.STEPS, columns.STEPS))  # fmt: skip


def _config(path: Path) -> dict[str, Any]:
    import yaml

    try:
        config = yaml.load(_text(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}:" if mark else ":"
        raise RunError(f"{path}:{where} {getattr(error, 'problem', None) or 'not YAML'}") from error
    if not isinstance(config, dict):
        raise RunError(f"{path}: a mapping of options was expected")
    return config


def _summary(path: Path) -> dict[str, Any]:
    try:
        summary = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise RunError(f"{path}: line {error.lineno}: {error.msg}") from error
    if not isinstance(summary, dict):
        raise RunError(f"{path}: an object of flat keys was expected")
    return summary


def _table(path: Path, wanted: dict[str, columns.Column]) -> Table:
    from twin.results.tables import read_parquet

    try:
        return read_parquet(str(path), wanted)
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: {str(error).splitlines()[0]}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RunError(f"{path}: not text in UTF-8") from error
    except OSError as error:
        raise RunError(f"{path}: {reason(error)}") from error
