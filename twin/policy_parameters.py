"""A policy's parameters: those of its constructor, with their types."""

import inspect
import types
import typing
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from twin.nearest import nearest

SIMPLE = (int, float, bool, str, type(None))
OF_EVERY_POLICY = ("name", "admission", "victim", "preemption_mode", "pause", "preempt_for_seat")  # not the policy's own


class PolicyFileError(ValueError):
    """A policy cannot be had or made; the message is one line with the file and line, or the option, at fault."""


MISMATCH = object()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a policy's constructor: `policy.NAME` on the command line."""

    name: str
    type: Any  # int, float, bool, str, a Literal, or a union of those and None
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is inspect.Parameter.empty

    @property
    def type_text(self) -> str:
        """The type as a person writes it: `int`, `max|pow2|oracle`, `float or null`."""
        return type_text(self.type)

    def value(self, policy: str, given: dict[str, Any], option: str = "policy") -> Any:
        """The given value or the default; raises `PolicyFileError` when it is missing or of another type."""
        named = f"{_prefix(option)}{self.name}"
        if self.name not in given:
            if self.required:
                raise PolicyFileError(f"{named}: {option}={policy} needs it ({self.type_text})")
            return self.default
        value = given[self.name]
        matched = converted(value, self.type)
        if matched is MISMATCH:
            shown = "null" if value is None else value
            raise PolicyFileError(f"{named}={shown}: {option}={policy} takes {self.type_text} here")
        return matched


def resolved(
    policy: str, parameters: tuple[Parameter, ...], given: dict[str, Any], option: str = "policy"
) -> dict[str, Any]:
    """The values of all parameters, defaults filled in; raises `PolicyFileError` for an unknown or wrong one.

    `option` is the one by which the policy was chosen: as a part it has its parameters behind its name, in brackets.
    """
    prefix = _prefix(option)
    known = {parameter.name: parameter for parameter in parameters}
    for key in given:
        if key not in known:
            listed = ", ".join(f"{prefix}{name}" for name in known) or "it has none"
            hint = nearest(key, known, prefix)
            raise PolicyFileError(f"{prefix}{key}: no such parameter of {option}={policy}{hint} (parameters: {listed})")
    return {name: parameter.value(policy, given, option) for name, parameter in known.items()}


def _prefix(option: str) -> str:
    return "" if "." in option else f"{option}."


def converted(value: Any, type_: Any) -> Any:
    """`value` as the type has it (an integer is also a float), or MISMATCH."""
    origin = get_origin(type_)
    if origin is Literal:
        same = [word for word in get_args(type_) if word == value and type(word) is type(value)]
        return same[0] if same else MISMATCH
    if origin in (Union, types.UnionType):
        tried = [converted(value, part) for part in get_args(type_)]
        return next((found for found in tried if found is not MISMATCH), MISMATCH)
    if type_ is float and type(value) is int:
        return float(value)
    return value if type(value) is type_ else MISMATCH


def type_text(type_: Any) -> str:
    """A type in words, for help and errors."""
    origin = get_origin(type_)
    if origin is Literal:
        return "|".join(map(str, get_args(type_)))
    if origin in (Union, types.UnionType):
        return " or ".join(type_text(part) for part in get_args(type_))
    return "null" if type_ is type(None) else type_.__name__


def parameters_of(policy: type, where: str, reserved: Collection[str] = OF_EVERY_POLICY) -> tuple[Parameter, ...]:
    """The parameters of the class's constructor in order; `where` is its file and line, for errors.

    None may have a reserved name.
    """
    if policy.__init__ is object.__init__:  # type: ignore[misc]
        return ()
    signature = inspect.signature(policy.__init__)  # type: ignore[misc]
    own = list(signature.parameters.values())[1:]
    for parameter in own:
        named = f"{where}: parameter {parameter.name} of {policy.__name__}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise PolicyFileError(f"{named} must be given by name: no *args, no **kwargs, nothing before a /")
        if parameter.annotation is parameter.empty:
            raise PolicyFileError(f"{named} has no type; write {parameter.name}: int (or float, bool, str, Literal)")
        if parameter.name in reserved:
            raise PolicyFileError(f"{named} has the name of an option that all of its kind have; choose another")
    try:
        hints = typing.get_type_hints(policy.__init__)  # type: ignore[misc]
    except Exception as error:  # types are the author's code: looking them up may raise anything
        raise PolicyFileError(f"{where}: a type of the constructor of {policy.__name__} is unknown: {error}") from error
    return tuple(_parameter(policy, parameter, hints[parameter.name], where) for parameter in own)


def _parameter(policy: type, parameter: inspect.Parameter, type_: Any, where: str) -> Parameter:
    named = f"{where}: parameter {parameter.name} of {policy.__name__}"
    if not _supported(type_):
        raise PolicyFileError(f"{named} must be int, float, bool, str, Literal, or one of them | None")
    if parameter.default is parameter.empty:
        return Parameter(parameter.name, type_)
    default = converted(parameter.default, type_)
    if default is MISMATCH:
        shown = repr(parameter.default)[:100]
        raise PolicyFileError(f"{named} is {type_text(type_)}, but its default is {shown}")
    return Parameter(parameter.name, type_, default)


def _supported(type_: Any) -> bool:
    if get_origin(type_) is Literal:
        return True
    if get_origin(type_) in (Union, types.UnionType):
        return all(_supported(part) for part in get_args(type_))
    return type_ in SIMPLE
