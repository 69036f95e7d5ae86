"""Texts of JSON that is not a line each: taken apart a value at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from traces.readers.cells import message
from traces.readers.source import LINE_CHARACTERS, Source

BETWEEN = re.compile(r"[\s,]*")
LONGEST_WORD = 16  # an error so near the end of a piece may be that of a value which goes on


def values(source: Source) -> Iterator[tuple[int, object]]:
    """The elements of a text that is one JSON array, or else the values in it, one after the other (JSONL, or a single
    value over many lines): each with the line on which it begins, one in memory at a time.

    Raises ValueError that names the line for what is no such text.
    """
    cursor = Cursor(source)
    array = cursor.peek() == "["
    if array:
        cursor.move(1)
    while (begin := cursor.peek()) and not (array and begin == "]"):
        yield cursor.line, cursor.value()
    if array and not begin:
        raise ValueError(f"{source.path}:{cursor.line}: ends before the array does")
    cursor.move(len(begin))
    if array and cursor.peek():
        raise ValueError(f"{source.path}:{cursor.line}: goes on after the array")


class Cursor:
    """A place in the text of a source, of which one piece, or as much as the value at hand needs, is in memory."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.texts = source.texts()
        self.text = ""
        self.place = 0
        self.line = 1  # of `place`
        self.decoder = json.JSONDecoder()

    def more(self) -> bool:
        """Reads on; False at the end of the text."""
        piece = next((text for text in self.texts if text), "")
        self.text, self.place = self.text[self.place :] + piece, 0
        return bool(piece)

    def move(self, count: int) -> None:
        """Goes on by `count` characters, which are in memory."""
        self.line += self.text.count("\n", self.place, self.place + count)
        self.place += count

    def peek(self) -> str:
        """The next character that is neither space nor comma; "" at the end of the text."""
        while True:
            match = BETWEEN.match(self.text, self.place)
            assert match is not None
            self.move(match.end() - self.place)
            if self.place < len(self.text):
                return self.text[self.place]
            if not self.more():
                return ""

    def value(self) -> object:
        """The JSON value that begins here."""
        while True:
            try:
                value, end = self.decoder.raw_decode(self.text, self.place)
            except (ValueError, RecursionError) as problem:
                small = len(self.text) - self.place < LINE_CHARACTERS
                if unfinished(problem, len(self.text)) and small and self.more():
                    continue
                if isinstance(problem, json.JSONDecodeError):
                    self.move(problem.pos - self.place)
                    raise ValueError(f"{self.source.path}:{self.line}: not JSON: {problem.msg}") from None
                raise ValueError(f"{self.source.path}:{self.line}: not JSON: {message(problem)}") from None
            if end == len(self.text) and self.more():  # a number might go on
                continue
            self.move(end - self.place)
            return value


def unfinished(problem: Exception, length: int) -> bool:
    """Whether a text of that length may be JSON that is cut off."""
    if not isinstance(problem, json.JSONDecodeError):
        return False
    return problem.pos > length - LONGEST_WORD or problem.msg.startswith("Unterminated string")
