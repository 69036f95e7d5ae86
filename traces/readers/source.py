"""A file as readers get it: its path, its beginning, and its text piece by piece, never all at once."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

PARQUET, GZIP, TAR = b"PAR1", b"\x1f\x8b", b"ustar"
TAR_PLACE = 257
HEAD_BYTES = 64 << 10  # of what a format is recognised by
PIECE_BYTES = 1 << 20
LINE_CHARACTERS = 64 << 20  # the longest line, and the longest element of a JSON array
UNPACKED_FREE = 256 << 20  # a packed file may always unpack to so many bytes, and to more only as far as
UNPACKED_RATIO = 200  # times its own size: text gains up to 30 times, a gzip bomb 1,000


@dataclass(frozen=True)
class Source:
    """What is at `path`. `kind` is text, parquet, archive (tar) or folder; `head` the beginning of a text (unpacked if it
    is a .gz, without a BOM), else "".
    """

    path: Path
    kind: str
    head: str = ""
    packed: bool = False

    @classmethod
    def load(cls, path: str) -> Source:
        """Raises ValueError when there is nothing to read: no file, no access, empty, neither text nor Parquet."""
        place = Path(path)
        if place.is_dir():
            return cls(place, "folder")
        packed = False
        try:
            with place.open("rb") as file:
                packed = file.read(len(GZIP)) == GZIP
            with opened(place, packed) as unpacked:
                data = unpacked.read(HEAD_BYTES)
        except FileNotFoundError:
            raise ValueError(f"trace.path={path}: there is no such file") from None
        except (OSError, EOFError, zlib.error) as problem:
            raise ValueError(f"trace.path={path}: cannot be read: {problem}") from None
        if data.startswith(PARQUET) and not packed:
            return cls(place, "parquet")
        if data[TAR_PLACE:].startswith(TAR):
            return cls(place, "archive", packed=packed)
        if not data.strip():
            raise ValueError(f"trace.path={path}: the file is empty")
        head = decoded(codecs.getincrementaldecoder("utf-8-sig")(), data, False, place, 1)
        return cls(place, "text", head, packed)

    @property
    def first_line(self) -> str:
        """The first line that is not blank, without its end, as far as `head` holds it; "" for what is no text."""
        return self.head.lstrip().split("\n", 1)[0].rstrip()

    def texts(self) -> Iterator[str]:
        """The text in pieces of about `PIECE_BYTES`, cut anywhere; lines end as they do in the file.

        Raises ValueError that names the line for what cannot be unpacked or is no text, and for a gzip bomb.
        """
        if self.kind != "text":
            raise ValueError(f"{self.path}: is {named(self.kind)}, not text: leave trace.format out or name the right one")
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        line, size = 1, 0
        most = max(UNPACKED_FREE, UNPACKED_RATIO * self.path.stat().st_size)
        try:
            with opened(self.path, self.packed) as file:
                while data := file.read(PIECE_BYTES):
                    size += len(data)
                    if self.packed and size > most:
                        raise ValueError(f"{self.path}:{line}: unpacks to more than {most:,} bytes: unpack it yourself")
                    yield decoded(decoder, data, False, self.path, line)
                    line += data.count(b"\n")
                yield decoded(decoder, b"", True, self.path, line)
        except (OSError, EOFError, zlib.error) as problem:
            raise ValueError(f"{self.path}:{line}: cannot be read: {problem}") from None

    def lines(self) -> Iterator[str]:
        """The lines, with their ends."""
        return chain.from_iterable(io.StringIO(text, newline="\n") for text in self.whole_lines())

    def whole_lines(self) -> Iterator[str]:
        """The text in pieces that end where a line ends."""
        begun: list[str] = []
        size = line = 0
        for text in self.texts():
            cut = text.rfind("\n") + 1
            if cut:
                yield "".join([*begun, text[:cut]])
                begun, size = [], 0
            begun.append(text[cut:])
            size += len(text) - cut
            line += text.count("\n")
            if size > LINE_CHARACTERS:
                raise ValueError(f"{self.path}:{line + 1}: the line has more than {LINE_CHARACTERS:,} characters")
        if any(begun):
            yield "".join(begun)


def opened(path: Path, packed: bool) -> IO[bytes]:
    """The file, unpacked as it is read."""
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def decoded(decoder: codecs.IncrementalDecoder, data: bytes, final: bool, path: Path, line: int) -> str:
    """The next piece of a text whose first line is number `line`; raises ValueError for what is no text."""
    try:
        text = decoder.decode(data, final)
    except UnicodeDecodeError as problem:
        line += problem.object[: problem.start].count(b"\n")
        raise ValueError(f"{path}:{line}: neither text (UTF-8) nor Parquet") from None
    if "\0" in text:
        line += text[: text.index("\0")].count("\n")
        raise ValueError(f"{path}:{line}: neither text nor Parquet")
    return text


def named(kind: str) -> str:
    """A kind of source in a message."""
    return {"parquet": "Parquet", "archive": "an archive", "folder": "a folder"}.get(kind, kind)
