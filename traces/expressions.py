"""The small language of the options: `name(argument, keyword=argument, value:weight)`, read and never evaluated."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TypeVar

CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(([^()]*)\)\s*")
KEYWORD = re.compile(r"\s*([A-Za-z_]\w*)\s*=(.*)")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf")
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Pair:
    """`value:weight`, an argument of `choice`."""

    value: float
    weight: float


def number(text: str) -> float:
    """An integer stays an integer; raises ValueError for what is not a number."""
    text = text.strip()
    if not NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a number" if text else "an argument is empty")
    return int(text) if re.fullmatch(r"[+-]?\d{1,300}", text) else float(text)


def argument(text: str) -> float | Pair:
    """`8`, `1e3` or `100:0.5`."""
    value, colon, weight = text.partition(":")
    return Pair(number(value), number(weight)) if colon else number(text)


def build(text: object, option: str, kinds: Mapping[str, type[Kind]]) -> Kind:
    """The object that an expression like `gamma(8,cv=2)` describes; `kinds` are the classes by name.

    A class is a dataclass whose fields are the arguments (or one field `pairs`, any number of them), which raises
    ValueError for bad values, and whose FORM shows its use. A bare number means `constant(number)`.

    Raises ValueError, one line: the option, the expression, what is wrong with it, the forms that are allowed.
    """
    expression = str(text)
    try:
        if isinstance(text, bool) or text is None:
            raise ValueError("not an expression")
        if NUMBER.fullmatch(expression.strip()):
            expression = f"constant({expression})"
        call = CALL.fullmatch(expression)
        if not call:
            raise ValueError("not of the form name(arguments)")
        kind = kinds.get(call[1])
        if kind is None:
            raise ValueError(f"there is no {call[1]}")
        return kind(**bound(call[1], call[2], kind))
    except ValueError as problem:
        forms = ", ".join(getattr(kind, "FORM", name) for name, kind in kinds.items())
        raise ValueError(f"{option}={text}: {problem}; allowed are {forms}") from None


def bound(name: str, arguments: str, kind: type) -> dict[str, object]:
    """The constructor's arguments by name, checked against the fields of the dataclass `kind`."""
    places = {place.name: place.default is MISSING for place in fields(kind)}
    given: dict[str, object] = {}
    positional: list[float | Pair] = []
    for item in arguments.split(",") if arguments.strip() else []:
        keyword = KEYWORD.fullmatch(item)
        if keyword is None:
            positional.append(argument(item))
        elif keyword[1] not in places or "pairs" in places:
            raise ValueError(f"{name} has no argument {keyword[1]}")
        elif keyword[1] in given:
            raise ValueError(f"{keyword[1]} is given twice")
        else:
            given[keyword[1]] = number(keyword[2])
    if "pairs" in places:
        return {"pairs": tuple(positional)}
    if any(isinstance(item, Pair) for item in positional):
        raise ValueError(f"{name} takes numbers, not value:weight")
    if len(positional) > len(places):
        raise ValueError(f"{name} takes at most {len(places)} arguments, not {len(positional)}")
    for place, value in zip(places, positional, strict=False):
        if place in given:
            raise ValueError(f"{place} is given twice")
        given[place] = value
    missing = [place for place, needed in places.items() if needed and place not in given]
    if missing:
        raise ValueError(f"{name} needs {' and '.join(missing)}")
    return given
