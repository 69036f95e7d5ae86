"""ServeGen data: what each client of a model sends, window by window, in a folder or a tar archive of it.

Source: github.com/alibaba/ServeGen, data/ (Apache-2.0); Xiang et al., arXiv:2505.09999, 2025. A client is a pair of
files. `chunk-7-trace.csv`, without header: start of the window (s), rate (requests/s), coefficient of variation of the
gaps, their distribution (Gamma, Weibull or none) and its shape and scale; windows of 600 s. `chunk-7-dataset.json`:
start of the window (longer ones) -> field (input_tokens, output_tokens, ...) -> a text `{length: probability, ...}`.

These are parameters, not requests: the generator `servegen` makes requests of them.
"""

from __future__ import annotations

import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from traces.readers.reader import Reader
from traces.readers.rows import Rows
from traces.readers.source import Source
from traces.trace import Report, Trace

MEMBER = re.compile(r"chunk-(\d{1,9})-(trace\.csv|dataset\.json)")
PATTERNS = ("", "Gamma", "Weibull")
FILE_BYTES = 64 << 20  # of one file of a client; the largest published has 30 MiB
ALL_BYTES = 4 << 30  # of all of them, unpacked
SUM_TOLERANCE = 1e-3  # of the probabilities of a histogram around 1
HISTOGRAM = re.compile(r"\s*\{[-+.:,\s\deE]*\}\s*", re.ASCII)


@dataclass(frozen=True, eq=False)
class Histogram:
    """A distribution of lengths: `values` ascending, `probabilities` of them, which sum to 1."""

    values: np.ndarray
    probabilities: np.ndarray

    def mean(self) -> float:
        """The expected length."""
        return float(self.values @ self.probabilities)


@dataclass(eq=False)
class Client:
    """A client: arrays of one entry a window of arrivals, and its histograms by window of lengths and field.

    `start_s` ascending; `rate` in requests/s, 0 where nothing comes; `pattern` "" where no distribution was fitted, and
    then `shape` and `scale` (s) are 0. `lengths` may be empty: upstream's large files are not in every copy.
    """

    name: str
    start_s: np.ndarray = field(default_factory=lambda: np.empty(0))
    rate: np.ndarray = field(default_factory=lambda: np.empty(0))
    cv: np.ndarray = field(default_factory=lambda: np.empty(0))
    pattern: list[str] = field(default_factory=list)
    shape: np.ndarray = field(default_factory=lambda: np.empty(0))
    scale: np.ndarray = field(default_factory=lambda: np.empty(0))
    lengths: dict[int, dict[str, Histogram]] = field(default_factory=dict)


def read_clients(path: str | Path) -> list[Client]:
    """The clients in a folder (or its subfolders) or a tar archive (also packed), in order of their numbers.

    Raises ValueError with one line that names the file and place of what is wrong.
    """
    clients: dict[str, Client] = {}
    for name, data in members(Path(path)):
        match = MEMBER.fullmatch(name.rsplit("/", 1)[-1])
        assert match is not None
        key = f"{name.rpartition('/')[0]}/{match[1]}"
        client = clients.setdefault(key, Client(f"chunk-{match[1]}"))
        (read_windows if match[2] == "trace.csv" else read_lengths)(client, f"{path}/{name}", data)
    if not any(len(client.start_s) for client in clients.values()):
        raise ValueError(f"{path}: no ServeGen client in it: there is no chunk-0-trace.csv or the like")
    folders = {key.rsplit("/", 1)[0] for key in clients}
    if len(folders) > 1:
        raise ValueError(f"{path}: holds several models ({', '.join(sorted(folders)[:5])}): give the folder of one")
    return sorted((c for c in clients.values() if len(c.start_s)), key=lambda client: int(client.name[6:]))


def members(path: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each file of a client under `path`, which is a folder or an archive."""
    total = 0
    try:
        for name, data in folder_members(path) if path.is_dir() else archive_members(path):
            total += len(data)
            if len(data) > FILE_BYTES or total > ALL_BYTES:
                raise ValueError(f"{path}/{name}: more than {FILE_BYTES >> 20} MiB, or {ALL_BYTES >> 30} GiB in all")
            yield name, data.decode("utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"trace.path={path}: there is no such file or folder") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: a file of a client is not text (UTF-8)") from None
    except (OSError, EOFError, zlib.error, tarfile.TarError) as problem:
        raise ValueError(f"{path}: cannot be read: {problem}") from None


def folder_members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Those in a folder and below."""
    for place in sorted(path.rglob("chunk-*-*")):
        if MEMBER.fullmatch(place.name) and place.is_file():
            with place.open("rb") as file:
                yield str(place.relative_to(path)), file.read(FILE_BYTES + 1)


def archive_members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Those in an archive, which is read from front to back; nothing is written to disk."""
    unpacked = 0
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            unpacked += member.size
            if unpacked > ALL_BYTES:
                raise ValueError(f"{path}: more than {ALL_BYTES >> 30} GiB in the archive")
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None and MEMBER.fullmatch(member.name.rsplit("/", 1)[-1]):
                yield member.name, file.read(FILE_BYTES + 1)


def read_windows(client: Client, place: str, text: str) -> None:
    """The windows of arrivals of a client."""
    table: list[tuple[float, ...]] = []
    client.pattern = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 6:
            raise ValueError(f"{place}:{number}: {len(cells)} fields, must be start_s,rate,cv,pattern,shape,scale")
        if cells[3] not in PATTERNS:
            raise ValueError(f"{place}:{number}: pattern is {cells[3][:40]!r}, must be Gamma, Weibull or empty")
        try:
            row = tuple(float(cell) for cell in cells[:3] + cells[4:])
        except ValueError as problem:
            raise ValueError(f"{place}:{number}: {problem}") from None
        if not all(0 <= value < 1e15 for value in row):
            raise ValueError(f"{place}:{number}: numbers must be finite and not negative")
        if table and row[0] <= table[-1][0]:
            raise ValueError(f"{place}:{number}: starts at {row[0]:g} s, not after the window above")
        table.append(row)
        client.pattern.append(cells[3])
    if not table:
        raise ValueError(f"{place}:1: the file is empty")
    client.start_s, client.rate, client.cv, client.shape, client.scale = np.array(table).T.copy()


def read_lengths(client: Client, place: str, text: str) -> None:
    """The histograms of a client; a window without any is left out."""
    try:
        windows = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{place}: not JSON: {problem}") from None
    if not isinstance(windows, dict):
        raise ValueError(f"{place}: must be an object of windows")
    for start, fields in windows.items():
        if not re.fullmatch(r"\d{1,12}", start, re.ASCII) or not isinstance(fields, dict):
            raise ValueError(f"{place}: window {start[:40]!r} must be a number of seconds with an object of fields")
        found = {name: histogram(value, f"{place}: window {start}, {name[:40]}") for name, value in fields.items()}
        client.lengths[int(start)] = {name: value for name, value in found.items() if value is not None}
    client.lengths = {start: fields for start, fields in sorted(client.lengths.items()) if fields}


def histogram(text: object, place: str) -> Histogram | None:
    """A text `{length: probability, ...}`; None for the empty one. It is taken apart, never evaluated."""
    if not isinstance(text, str) or not HISTOGRAM.fullmatch(text):
        raise ValueError(f"{place}: must be a text like '{{45: 0.25, 46: 0.75}}'")
    pairs = [pair for pair in text.strip()[1:-1].split(",") if pair.strip()]
    if not pairs:
        return None
    try:
        numbers = np.array([[float(number) for number in pair.split(":")] for pair in pairs])
    except ValueError:
        numbers = np.empty(0)
    if numbers.ndim != 2 or numbers.shape[1] != 2:
        raise ValueError(f"{place}: must be pairs of a length and a probability")
    values, probabilities = numbers[np.argsort(numbers[:, 0], kind="stable")].T.copy()
    total = probabilities.sum()
    if not (values[0] >= 0 and values[-1] < 1e12 and probabilities.min() >= 0 and abs(total - 1) < SUM_TOLERANCE):
        raise ValueError(f"{place}: lengths must not be negative, and probabilities must sum to 1, not {total:g}")
    return Histogram(values, probabilities / total)


def recognises(source: Source) -> bool:
    """Whether a folder holds clients; any archive is taken for one that does."""
    if source.kind == "folder":
        return any(MEMBER.fullmatch(place.name) for place in source.path.glob("chunk-*-*"))
    return source.kind == "archive"


def read(source: Source, rows: Rows, report: Report) -> Trace:
    """Raises ValueError always: there are no requests to read, but the generator makes some."""
    clients = read_clients(source.path)
    raise ValueError(
        f"{source.path}: tells what {len(clients)} clients do, and holds no requests: use trace=servegen, which makes them"
    )


READER = Reader("servegen", "ServeGen clients, folder or tar", recognises, read)
