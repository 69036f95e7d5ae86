"""The options of a search for the best setting: `-m scheduler.max_num_seqs=64,128,256`, in the words of a sweep."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from twin.cli.errors import UserError
from twin.cli.quoting import OVERRIDE, UNQUOTED, elements
from twin.cli.sweep_axes import matching
from twin.cli.sweep_values import values_of

MULTIRUN = ("-m", "--multirun")
MOST = 10_000  # settings


@dataclass(frozen=True)
class Axis:
    """An option and the values that it may take, as they would be typed: some, or all between two numbers."""

    key: str
    values: tuple[str, ...] = ()
    between: tuple[float, float] | None = None  # whole numbers if both ends are

    @property
    def first(self) -> str:
        """One of them, as typed."""
        return self.values[0] if self.between is None else str(self.between[0])


def axes_of(words: Iterable[str]) -> tuple[list[Axis], list[str]]:
    """The axes among the words, and all other words. Raises UserError for a list of values without -m, or -m without one."""
    words = list(words)
    many = any(word in MULTIRUN for word in words)
    axes: list[Axis] = []
    rest: list[str] = []
    for word in (word for word in words if word not in MULTIRUN):
        axis = _axis(word, words)
        if axis is None:
            rest.append(word)
            continue
        if not many:
            raise UserError(f"{word}: one value is needed here; with -m the best of several is looked for")
        if any(other.key == axis.key for other in axes):
            raise UserError(f"{word}: {axis.key} is given twice")
        axes.append(axis)
    if many and not axes:
        raise UserError("-m: no option has several values; give one a list, scheduler.max_num_seqs=64,128,256")
    return axes, rest


def _axis(word: str, words: list[str]) -> Axis | None:
    match = OVERRIDE.fullmatch(word)
    if match is None or match["key"].startswith("hydra"):
        return None
    key, value = match["key"], match["value"].strip()
    if key in UNQUOTED:  # choice(...) is a distribution there
        parts = elements(value) if value and value[0] not in "'\"" else [value]
        return Axis(key, _distinct(word, parts)) if len(parts) > 1 else None
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Glob
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(word)
    except (HydraException, ValueError, RecursionError):
        return None  # compose says what is wrong with it
    if not override.is_sweep_override():
        return None
    if override.is_interval_sweep():
        return Axis(key, between=_ends(word, value))
    if isinstance(pattern := override.value(), Glob):
        return Axis(key, _distinct(word, matching(word, key, pattern, words)))
    return Axis(key, _distinct(word, values_of(word, override, MOST)))


def _ends(word: str, value: str) -> tuple[float, float]:
    """Of interval(16,256), as they were typed: Hydra makes floats of whole numbers."""
    typed = elements(value.partition("(")[2].rpartition(")")[0])
    try:
        low, high = (int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text) for text in typed)
    except ValueError:
        low, high = 0, 0
    if not low < high:
        raise UserError(f"{word}: interval(A,B) needs two numbers, the lesser first")
    return low, high


def _distinct(word: str, values: list[str]) -> tuple[str, ...]:
    if "" in values:
        raise UserError(f"{word}: a value of the list is missing")
    return tuple(dict.fromkeys(values))
