"""The folder of a run: claimed before anything is simulated, so that hours of work never end at a closed door."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from twin.cli.errors import UserError

if TYPE_CHECKING:
    from twin.results.folder import RunFolder


def claim(run_dir: Path, given: bool, option: str = "hydra.run.dir") -> Path:
    """Creates the folder and tries whether it can be written to; raises `UserError` and leaves nothing if not.

    A folder that the user named (`given`) may exist: its files are replaced. The default one, named after the second,
    is never shared: a second run of the same second gets `-2` behind the name, and so on.
    """
    from twin.results.atomic import OutputError
    from twin.results.folder import refuse_obstacles

    made: list[Path] = []
    try:
        folder = _created(run_dir, made) if given else _created_anew(run_dir, made)
        refuse_obstacles(folder)
        with tempfile.TemporaryFile(dir=folder) as handle:
            handle.write(b"\0" * 4096)  # a full disk may still grant an empty file
        return folder
    except OutputError as error:
        raise UserError(f"{option}={run_dir}: {error}") from error
    except OSError as error:
        release(made)
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{option}={run_dir}: cannot be written to ({reason}); name another folder") from error


def release(made: list[Path]) -> None:
    """Removes the folders, newest first, as far as they are empty."""
    for folder in reversed(made):
        try:
            folder.rmdir()
        except OSError:
            return  # someone has put something there: it stays, and so do its parents


@contextmanager
def writing(folder: Path) -> Iterator["RunFolder"]:
    """Its files, all of them or none. Raises `UserError` where they cannot be written."""
    from twin.results.atomic import OutputError
    from twin.results.folder import RunFolder

    try:
        with RunFolder(folder) as files:
            yield files
    except OutputError as error:
        raise UserError(f"hydra.run.dir={folder}: {error}") from error


def _created(folder: Path, made: list[Path]) -> Path:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        made.append(path)
    if not folder.is_dir():
        raise NotADirectoryError(20, os.strerror(20), str(folder))
    return folder


def _created_anew(folder: Path, made: list[Path]) -> Path:
    _created(folder.parent, made)
    attempt, number = folder, 1
    while True:
        try:
            attempt.mkdir()  # atomic: of two runs only one can make it
        except FileExistsError:
            number += 1
            attempt = folder.with_name(f"{folder.name}-{number}")
            continue
        made.append(attempt)
        return attempt
