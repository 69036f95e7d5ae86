"""The head of a GGUF file: metadata, and where each tensor lies.

Read here and not by the `gguf` package, whose reader makes an array of each of a vocabulary's hundred thousand strings:
seconds at each start. The format (versions 2 and 3, little-endian) is that of ggml's docs/gguf.md:

    "GGUF", version u32, tensors u64, pairs u64
    pairs:    key, type u32, value               a string is its length u64 and its bytes in UTF-8,
    tensors:  name, dimensions u32, sizes u64...,  an array its type u32, its length u64 and its values
              type u32, offset u64
    padding to a multiple of general.alignment, from where the offsets count
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import EngineError

VERSIONS = (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
DEFAULT_ALIGNMENT = 32
MOST_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as the file has it."""

    name: str
    shape: tuple[int, ...]  # outermost dimension first: [outputs, inputs] (the file has the innermost first)
    type_number: int  # ggml's number of the element type
    offset: int  # bytes from the start of the file


@dataclass(frozen=True, slots=True)
class GgufHeader:
    metadata: dict[str, Any]  # lists of strings, which are a tokenizer's, are left out
    tensors: list[TensorInfo]


def read_header(file: Path) -> GgufHeader:
    """All of a file's head. Raises EngineError where the file ends too early or is of another kind."""
    with open(file, "rb") as handle:
        if handle.read(4) != b"GGUF":
            raise EngineError(f"{file}: not a GGUF file: it does not start with the letters GGUF")
        with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Reader(content, file).header()


class _Reader:
    """A place in the bytes of the file, moved on by what is read."""

    def __init__(self, content: mmap.mmap, file: Path) -> None:
        self._content = content
        self._size = len(content)
        self._file = file
        self._at = 4

    def header(self) -> GgufHeader:
        (version,) = self._numbers("I")
        if version not in VERSIONS:
            raise EngineError(f"{self._file}: GGUF version {version}; little-endian files of versions 2 and 3 are read")
        tensor_count, pair_count = self._numbers("QQ")
        metadata = {}
        for _ in range(pair_count):
            key = self._string()
            value = self._value(self._numbers("I")[0])
            if value is not None:
                metadata[key] = value
        tensors = [self._tensor() for _ in range(tensor_count)]
        alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise EngineError(f"{self._file}: general.alignment must be a whole number above 0, not {alignment!r}")
        start = -(-self._at // alignment) * alignment
        return GgufHeader(metadata, [TensorInfo(name, shape, kind, start + offset) for name, shape, kind, offset in tensors])

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        (dimensions,) = self._numbers("I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise EngineError(f"{self._file}: {name} has {dimensions} dimensions; 1 to {MOST_DIMENSIONS} are possible")
        sizes = self._numbers("Q" * dimensions)
        kind, offset = self._numbers("IQ")
        return name, tuple(reversed(sizes)), kind, offset

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            return self._array()
        return self._numbers(self._scalar(kind))[0]

    def _array(self) -> list[Any] | None:
        """None for strings; arrays of arrays are no part of any model."""
        kind, length = self._numbers("IQ")
        if kind == STRING:
            for _ in range(length):
                self._skip(self._numbers("Q")[0])
            return None
        letter = self._scalar(kind)
        self._check_room(length * struct.calcsize(letter))
        return list(self._numbers(f"{length}{letter}"))

    def _scalar(self, kind: int) -> str:
        if kind not in SCALARS:
            raise EngineError(f"{self._file}: byte {self._at}: a value of type {kind}, which GGUF does not have")
        return SCALARS[kind]

    def _string(self) -> str:
        (length,) = self._numbers("Q")
        start = self._at
        self._skip(length)
        try:
            return self._content[start : self._at].decode()
        except UnicodeDecodeError:
            raise EngineError(f"{self._file}: byte {start}: a string that is not UTF-8") from None

    def _numbers(self, letters: str) -> tuple[Any, ...]:
        layout = struct.Struct(f"<{letters}")
        start = self._at
        self._skip(layout.size)
        return layout.unpack_from(self._content, start)

    def _skip(self, count: int) -> None:
        self._check_room(count)
        self._at += count

    def _check_room(self, count: int) -> None:
        if count > self._size - self._at:
            raise EngineError(f"{self._file}: not a whole GGUF file: it ends within its head, at byte {self._size}")
