"""A file as readers get it: its path and its text."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

PARQUET, GZIP = b"PAR1", b"\x1f\x8b"


@dataclass(frozen=True)
class Source:
    """The file `path`; `text` is None for Parquet, else its content (unpacked if it is a .gz, without a BOM)."""

    path: Path
    text: str | None

    @classmethod
    def load(cls, path: str) -> Source:
        """Raises ValueError when there is nothing to read: no file, a folder, no access, empty, neither text nor
        Parquet."""
        place = Path(path)
        try:
            data = place.read_bytes()
            if data.startswith(GZIP):
                data = gzip.decompress(data)
        except FileNotFoundError:
            raise ValueError(f"trace.path={path}: there is no such file") from None
        except IsADirectoryError:
            raise ValueError(f"trace.path={path}: is a folder, must be a file") from None
        except (OSError, EOFError, zlib.error) as problem:
            raise ValueError(f"trace.path={path}: cannot be read: {problem}") from None
        if data.startswith(PARQUET):
            return cls(place, None)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            line = data[: problem.start].count(b"\n") + 1
            raise ValueError(f"{path}:{line}: neither text (UTF-8) nor Parquet") from None
        if not text.strip():
            raise ValueError(f"trace.path={path}: the file is empty")
        if "\0" in text:
            raise ValueError(f"{path}:{text[: text.index(chr(0))].count(chr(10)) + 1}: neither text nor Parquet")
        return cls(place, text)

    @property
    def first_line(self) -> str:
        """The first line that is not blank, without its end; "" for Parquet."""
        return "" if self.text is None else self.text.lstrip().split("\n", 1)[0].rstrip()

    def require_text(self, format: str) -> str:
        """The text; raises ValueError for a Parquet file, named `format` by the user."""
        if self.text is None:
            raise ValueError(f"{self.path}: is Parquet, not {format}: leave trace.format out, or give parquet")
        return self.text
