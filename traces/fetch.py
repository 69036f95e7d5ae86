"""Downloads of public traces: resumed where they were cut off, checked, and renamed into place only when whole."""

from __future__ import annotations

import hashlib
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO

from traces.catalogue import PublicTrace

PIECE_BYTES = 1 << 18
MOST_BYTES = 20 << 30  # of a file whose size is not known
TIMEOUT_S = 30.0  # without a byte
MOST_S = 6 * 3600.0  # of a whole download
RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class FetchError(Exception):
    """A download failed; the text is one line that says which address and why, and whether it can be resumed."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where downloads are kept: `$XDG_CACHE_HOME/twin/traces`, by default `~/.cache/twin/traces`."""
    given = environment.get("XDG_CACHE_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"  # the standard: relative paths are ignored
    return base / "twin" / "traces"


def fetch(
    trace: PublicTrace,
    folder: Path,
    url: str | None = None,
    timeout_s: float = TIMEOUT_S,
    most_s: float = MOST_S,
    progress: Callable[[int, int | None], None] | None = None,
) -> Path:
    """The path of the trace's file in `folder`, downloaded unless a whole one is there already.

    `url` replaces the published address (a mirror); size and SHA-256 are checked all the same. `timeout_s` limits the
    wait for any one byte, `most_s` the whole; `progress` is told the bytes so far and of all. A download that was cut
    off is kept as `FILE.part` and resumed by the next call, if the server still has the same file.

    Raises ValueError for an address that is none, FetchError for everything that goes wrong on the way.
    """
    address = trace.url if url is None else url
    if not re.match(r"https?://[^/\s]+/", address):
        raise ValueError(f"url={address}: must be an http:// or https:// address of a file")
    place = folder / trace.file
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if place.exists() and wrong(place, trace) is None:
            return place
    partial = Partial(place.with_name(place.name + ".part"), address)
    with partial.locked() as file:
        try:
            download(partial, file, trace, timeout_s, time.monotonic() + most_s, progress)
        except (OSError, HTTPException) as error:  # of the network: those of the disk are FetchErrors already
            raise FetchError(f"{address}: {explained(error, timeout_s)}") from error
        finally:
            if partial.path.exists() and not partial.path.stat().st_size:
                partial.discard()
        with writing(place):
            problem = wrong(partial.path, trace)
            if problem is None:
                os.replace(partial.path, place)
            partial.discard()
    if problem is not None:
        raise FetchError(f"{address}: {problem}; nothing of it was kept")
    return place


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Says which file the system refuses to write, and why."""
    try:
        yield
    except OSError as error:
        raise FetchError(f"cannot write {error.filename or path}: {(error.strerror or str(error)).lower()}") from error


@dataclass(frozen=True)
class Partial:
    """`FILE.part`, and beside it `FILE.part.from`: the address and the server's name for this version of the file."""

    path: Path
    address: str

    @property
    def origin(self) -> Path:
        return self.path.with_name(self.path.name + ".from")

    def locked(self) -> BinaryIO:
        """The file, open for reading and writing without buffer; FetchError while another process has it."""
        with writing(self.path):
            file = open(self.path, "ab+", buffering=0)  # noqa: SIM115
        try:
            import fcntl
        except ImportError:  # Windows: two at once are caught by the check of the result
            return file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise FetchError(f"{self.path}: another process is downloading it") from None
        return file

    def version(self) -> str | None:
        """What `If-Range` needs to go on with this file; None when it came from elsewhere or the server named none."""
        try:
            address, _, version = self.origin.read_text(encoding="utf-8").partition("\n")
        except OSError:
            return None
        return version.strip() if address == self.address and version.strip() else None

    def begin(self, file: BinaryIO, response: HTTPResponse) -> None:
        """Empties the file for this response's."""
        etag = response.headers.get("ETag", "")
        version = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified", "")
        with writing(self.path):
            file.truncate(0)
            self.origin.write_text(f"{self.address}\n{version}\n", encoding="utf-8")

    def discard(self) -> None:
        """Removes what there is."""
        self.path.unlink(missing_ok=True)
        self.origin.unlink(missing_ok=True)


def download(
    partial: Partial,
    file: BinaryIO,
    trace: PublicTrace,
    timeout_s: float,
    end_s: float,
    progress: Callable[[int, int | None], None] | None,
) -> None:
    """Brings `file` to its full length; raises FetchError when the transfer ends early, is too long or too slow."""
    have, version = file.seek(0, os.SEEK_END), partial.version()
    if trace.size is not None and have == trace.size and version is not None:
        return  # it was cut off between the last byte and the renaming
    headers = {"User-Agent": "twin-serving", "Accept-Encoding": "identity"}
    if have and version is not None:
        headers |= {"Range": f"bytes={have}-", "If-Range": version}
    try:
        response = urllib.request.urlopen(urllib.request.Request(partial.address, headers=headers), timeout=timeout_s)
    except urllib.error.HTTPError as error:
        if error.code != 416 or "Range" not in headers:
            raise
        error.close()  # the file on the server ends before what we have: start anew
        del headers["Range"], headers["If-Range"]
        response = urllib.request.urlopen(urllib.request.Request(partial.address, headers=headers), timeout=timeout_s)
    with response:
        span = RANGE.fullmatch(response.headers.get("Content-Range", "")) if response.status == 206 else None
        if response.status == 206 and (span is None or int(span[1]) != have):
            partial.discard()
            raise FetchError(f"{partial.address}: the server sends another part than was asked for; try again")
        if span is None:
            partial.begin(file, response)
            have = 0
        length = response.headers.get("Content-Length", "")
        whole = have + int(length) if length.isdecimal() else None
        most = MOST_BYTES if trace.size is None else trace.size
        if whole is not None and (whole > most or (trace.size is not None and whole != trace.size)):
            partial.discard()
            raise FetchError(
                f"{partial.address}: has {whole:,} bytes, must have {'at most ' * (trace.size is None)}{most:,}"
            )
        while piece := response.read1(PIECE_BYTES):
            have += len(piece)
            if have > most:
                partial.discard()
                raise FetchError(f"{partial.address}: goes on after {most:,} bytes, where it must end")
            with writing(partial.path):
                write_all(file, piece)
            if progress is not None:
                progress(have, whole)
            if time.monotonic() > end_s:
                raise FetchError(f"{partial.address}: took too long; the same command resumes after {have:,} bytes")
    expected = whole if trace.size is None else trace.size
    if expected is not None and have < expected:
        raise FetchError(
            f"{partial.address}: the transfer ended after {have:,} of {expected:,} bytes; the same command resumes it"
        )


def write_all(file: BinaryIO, piece: bytes) -> None:
    """All bytes of `piece`: the system may take only some at a time, and those must count when it is full."""
    rest = memoryview(piece)
    while rest:
        rest = rest[file.write(rest) :]


def wrong(path: Path, trace: PublicTrace) -> str | None:
    """What is wrong with the whole file, in words; None if nothing that could be known is."""
    size = path.stat().st_size
    if trace.size is not None and size != trace.size:
        return f"has {size:,} bytes, must have {trace.size:,}"
    if size == 0:
        return "is empty"
    if trace.sha256 is None:
        return None
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return None if found == trace.sha256 else f"its SHA-256 is {found}, must be {trace.sha256}: changed or damaged"


def explained(error: Exception, timeout_s: float) -> str:
    """A network error in a few words."""
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code} {error.reason}"
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {timeout_s:g} s; the same command tries again"
    if isinstance(cause, OSError):
        return f"cannot be reached ({(cause.strerror or str(cause)).lower()})"
    return f"the transfer broke off ({type(cause).__name__}: {' '.join(str(cause).split())}); the same command resumes it"
