"""Python values as a program printed them into its log, taken apart without running any of it.

What vLLM prints is no literal: enums, paths and whole configurations stand among the numbers. So only the top level is cut
at its commas, and only numbers, words and None are read.
"""

from __future__ import annotations

from collections.abc import Iterator

OPENING, CLOSING = "([{<", ")]}>"
LONGEST = 200_000  # characters of a line that is looked into
Plain = int | float | bool | str | None


class CutOff(ValueError):
    """What was opened is never closed."""


def entries(text: str, separator: str, inside: bool = False) -> dict[str, str]:
    """{name: value as printed} of `name=value, ...` (separator "="), or of a dict's (separator ":").

    `inside`: the text begins behind a bracket, and ends where that is closed. Of a name that stands twice the first counts.
    Raises CutOff where a quote or a bracket is never closed.
    """
    found: dict[str, str] = {}
    for part in parts(text, inside):
        name, sign, value = part.partition(separator)
        if sign:
            found.setdefault(name.strip().strip("'\""), value.strip())
    return found


def parts(text: str, inside: bool) -> Iterator[str]:
    """The text cut at the commas that stand in no bracket and no quotes."""
    if len(text) > LONGEST:
        raise ValueError(f"{len(text):,} characters in one line, more than the {LONGEST:,} that are looked into")
    depth, quote, begun, place = 0, "", 0, 0
    while place < len(text):
        letter = text[place]
        if quote:
            if letter == "\\":
                place += 1
            elif letter == quote:
                quote = ""
        elif letter in "'\"":
            quote = letter
        elif letter in OPENING:
            depth += 1
        elif letter in CLOSING:
            depth -= 1
            if depth < 0:  # the bracket in which the text stands
                break
        elif letter == "," and depth == 0:
            yield text[begun:place]
            begun = place + 1
        place += 1
    if quote or depth > 0 or (inside and depth == 0):
        raise CutOff("cut off: a quote or a bracket is never closed")
    yield text[begun:place]


def plain(value: str) -> Plain:
    """A number, True, False, None or a quoted or bare word; raises ValueError for anything else."""
    constants: dict[str, Plain] = {"True": True, "False": False, "None": None, "true": True, "false": False}
    if value in constants:
        return constants[value]
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    if value and all(letter.isalnum() or letter in "._-/" for letter in value):
        return value
    raise ValueError(f"{value[:40]!r} is no plain value")
