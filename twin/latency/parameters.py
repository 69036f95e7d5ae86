"""Checks of what a user gives a latency model."""

import math
from collections.abc import Iterable, Mapping


def check_names(where: str, given: Iterable[str], allowed: Iterable[str], required: Iterable[str] = ()) -> None:
    """Refuses unknown and missing names, naming the right ones."""
    given, allowed = list(given), list(allowed)
    unknown = [name for name in given if name not in allowed]
    if unknown:
        raise ValueError(f"{where}: unknown {', '.join(unknown)}; there are {', '.join(allowed)}")
    missing = [name for name in required if name not in given]
    if missing:
        raise ValueError(f"{where}: missing {', '.join(missing)}")


def non_negative(where: str, name: str, value: object) -> float:
    """The value as a float, if it is finite and not below zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{where}: {name} must be a finite number, zero or above, not {value!r}")
    return float(value)


def positive(where: str, name: str, value: object) -> float:
    """The value as a float, if it is finite and above zero."""
    number = non_negative(where, name, value)
    if number == 0:
        raise ValueError(f"{where}: {name} must be above zero")
    return number


def section(where: str, name: str, value: object) -> Mapping:
    """The value, if it is a table of names."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: {name} must be a table of names and values, not {value!r}")
    return value
