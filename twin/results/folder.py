"""A run folder: its files appear together, when all of them are written, or not at all."""

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from twin.results.atomic import AtomicFile, OutputError, reason

CONFIG, SUMMARY, REQUESTS, STEPS = "config.yaml", "summary.json", "requests.parquet", "steps.parquet"
REPORT, TIMELINE, DECISIONS, POOL = "report.html", "timeline.json.gz", "decisions.jsonl.gz", "pool.html"
FIGURES = "figures"  # a folder


def is_whole(folder: Path) -> bool:
    """Whether the numbers of a run are there to their ends, as far as a glance tells: no table is read."""
    try:
        summary = json.loads((folder / SUMMARY).read_bytes())
        ends = [_last_four(folder / name) for name in (REQUESTS, STEPS)]
    except (OSError, ValueError):
        return False
    return isinstance(summary, dict) and (folder / CONFIG).is_file() and ends == [b"PAR1", b"PAR1"]


def _last_four(path: Path) -> bytes:
    with path.open("rb") as handle:
        handle.seek(max(0, path.stat().st_size - 4))
        return handle.read()


class RunFolder:
    """A context in which files are written under temporary names; when it ends well they all get their own.

    The folder is made, with its parents, and tried, on entry. Every failure to write raises OutputError, one line, and
    leaves neither temporary files nor new ones; older files of the same names then stay as they were.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._files: list[AtomicFile] = []
        self._made: list[Path] = []  # folders below the run's own

    def __enter__(self) -> "RunFolder":
        self._make(self.path)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        files, self._files = self._files, []
        made, self._made = self._made, []
        try:
            for file in files:
                if kind is None:
                    file.commit()
        finally:  # those that have their name by now are no longer there under the other
            for file in files:
                file.abort()
            for folder in reversed(made):
                if not any(folder.iterdir()):
                    folder.rmdir()

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A binary handle for the file `name`, which may lie in a folder below (`figures/load.png`)."""
        path = self.path / name
        if not path.parent.exists():
            self._make(path.parent)
            self._made.append(path.parent)
        file = AtomicFile(path)
        self._files.append(file)
        try:
            yield file.handle
        except OutputError:
            raise
        except OSError as error:
            raise file.failure(error) from error
        file.close()

    def text(self, name: str, text: str) -> None:
        with self.writing(name) as handle:
            handle.write(text.encode())

    def config(self, config: Mapping[str, Any] | str) -> None:
        """config.yaml, in the order given; a string is taken as it is."""
        self.text(CONFIG, config if isinstance(config, str) else yaml_text(config))

    def summary(self, summary: Mapping[str, Any]) -> None:
        """summary.json, in the order given, floats to their last digit. Raises ValueError for a nan: it has null."""
        self.text(SUMMARY, json.dumps(dict(summary), indent=2, allow_nan=False, ensure_ascii=False) + "\n")

    def gzipped(self, name: str, lines: Iterator[str]) -> None:
        """Lines of text, compressed; no time stamp in the header, so that equal lines give equal bytes."""
        with (
            self.writing(name) as handle,
            gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=handle, mtime=0) as archive,
        ):
            for line in lines:
                archive.write(line.encode())

    @staticmethod
    def _make(path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot make the folder {path}: {reason(error)}") from error


def refuse_obstacles(path: str | Path) -> None:
    """Raises OutputError where a folder lies in the place of a file of a run, or a file in that of the figures' folder."""
    path = Path(path)
    names = (CONFIG, SUMMARY, REQUESTS, STEPS, REPORT, TIMELINE, DECISIONS, POOL)
    for file in (*(path / name for name in names), *(path / FIGURES).glob("*.png")):
        if file.is_dir():
            raise OutputError(f"cannot write {file}: a folder of that name is in the way")
    if (path / FIGURES).exists() and not (path / FIGURES).is_dir():
        raise OutputError(f"cannot make the folder {path / FIGURES}: a file of that name is in the way")


def ensure_writable(path: str | Path) -> None:
    """Makes the folder and tries it with an empty file. Raises OutputError: before a long run, not after it."""
    with RunFolder(path) as folder:
        AtomicFile(folder.path / "trial").abort()


def yaml_text(config: Mapping[str, Any]) -> str:
    """The configuration as YAML, in its own order."""
    import yaml

    return yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True, width=120)


def plain(value: Any) -> Any:
    """The same in the types of JSON and YAML alone: numpy's scalars, tuples and paths become Python's own."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value
