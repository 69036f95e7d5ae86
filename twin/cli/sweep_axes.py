"""From the words of `twin run -m` to the grid: which options are swept, and over which values.

Lists, `choice()`, `range()` and `glob()` are Hydra's. Two things are not, as in `twin.cli.compose`: `policy=` and
`predictor=` name files, so that `policy=glob(s*)` looks among those, and distributions need no quotes: in a list each
element is one, and `choice(...)` is a distribution there, never a sweep.
"""

import re
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from twin.cli.compose import NAMED_BY_FILE
from twin.cli.errors import UserError, naming
from twin.cli.groups import choices, is_group
from twin.cli.quoting import OVERRIDE, UNQUOTED, elements, key_of
from twin.cli.sweep_values import values_of

SWEEPS = re.compile(r"(range|glob)\(.*\)", re.DOTALL)  # of Hydra, where a bracket otherwise means a distribution
MOST_JOBS = 100_000


class Axis(NamedTuple):
    """An option and its values, each as one would type it; more than one value means that it is swept."""

    key: str  # as typed, with its sign: ++policy.alpha
    values: tuple[str, ...]
    swept: bool

    @property
    def option(self) -> str:
        """Its name without the sign."""
        return self.key.lstrip("+")


class Point(NamedTuple):
    """A point of the grid."""

    words: tuple[str, ...]
    settings: dict[str, str]  # of the swept options alone: as typed, without quotes


def axes(words: Sequence[str]) -> tuple[list[Axis], list[str]]:
    """The axes in the order typed (the last word on an option counts), and the words that are no assignments."""
    found: dict[str, Axis] = {}
    others = []
    for word in words:
        if word.startswith("-"):
            raise UserError(f"{word}: unknown flag; options are written key=value, see --help")
        key = key_of(word)
        if not key:
            others.append(word)
            continue
        axis = _axis(word, words)
        found.pop(axis.option, None)
        found[axis.option] = axis
    return list(found.values()), others


def grid(found: Sequence[Axis], others: Sequence[str]) -> list[Point]:
    """All combinations, the last axis fastest, each once. Raises `UserError` for more than anybody wants."""
    size = 1
    for axis in found:
        size *= len(axis.values)
    if size > MOST_JOBS:
        lengths = " x ".join(f"{axis.option} {len(axis.values):,}" for axis in found if axis.swept)
        raise UserError(f"-m: {lengths} are {size:,} jobs; at most {MOST_JOBS:,} in one sweep")
    points: dict[tuple[str, ...], Point] = {}
    for values in product(*(axis.values for axis in found)):
        pairs = list(zip(found, values, strict=True))
        words = (*others, *(f"{axis.key}={value}" for axis, value in pairs))
        points.setdefault(words, Point(words, {axis.option: bare(value) for axis, value in pairs if axis.swept}))
    return list(points.values())


def bare(value: str) -> str:
    """A value without the quotes around it."""
    quoted = len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]
    return value[1:-1].replace(f"\\{value[0]}", value[0]).replace("\\\\", "\\") if quoted else value


def _axis(word: str, words: Sequence[str]) -> Axis:
    match = OVERRIDE.fullmatch(word)
    assert match is not None
    key, value = f"{match['sign']}{match['key']}", match["value"].strip()
    if match["key"] in UNQUOTED and not SWEEPS.fullmatch(value):
        listed = tuple(dict.fromkeys(elements(value)))
        if "" in listed and len(listed) > 1:
            raise UserError(f"{word}: an element of the list is empty")
        return Axis(key, listed, len(elements(value)) > 1)
    return _by_hydra(word, key, value, words)


def _by_hydra(word: str, key: str, value: str, words: Sequence[str]) -> Axis:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Glob
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(f"value={value}")
    except (HydraException, ValueError, RecursionError, OverflowError):
        return Axis(key, (value,), False)  # said in full, and in one place, when it is composed
    if not override.is_sweep_override():
        return Axis(key, (value,), False)
    if override.is_interval_sweep():
        raise UserError(f"{word}: an interval has no end of values; give a list, or range(first,last,step)")
    if isinstance(pattern := override.value(), Glob):
        values = matching(word, key.lstrip("+"), pattern, words)
    else:
        values = values_of(word, override, MOST_JOBS)
    return Axis(key, tuple(dict.fromkeys(values)), True)


def matching(word: str, option: str, pattern: "object", words: Sequence[str]) -> list[str]:
    """The names of a group, or of the files of policies or predictors, that a glob means."""
    there = _names(option, words)
    if not there:
        raise UserError(f"{word}: glob() is for options that take a name: policy, predictor, trace, model, gpu, ...")
    found: list[str] = pattern.filter(there)  # type: ignore[attr-defined]
    if not found:
        raise UserError(f"{word}: matches none of {', '.join(there)}")
    return found


def _names(option: str, words: Sequence[str]) -> list[str]:
    if option in NAMED_BY_FILE or option.removesuffix(".name") in NAMED_BY_FILE:
        from twin import policies_registry, predictors_registry

        path = next((bare(word.partition("=")[2]) for word in reversed(words) if key_of(word) == "policy_path"), None)
        registry = policies_registry if option.startswith("policy") else predictors_registry
        with naming("policy_path"):
            return registry.names(path or None)
    return choices(option) if is_group(option) else []
