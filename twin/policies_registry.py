"""Finds a policy by name: one file, one class.

Where it is looked for is in `twin.policy_sources`. Nothing is registered by hand, and no file but the one asked for is
imported.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.class_file import check_docstring, constructor_at, from_entry_point, from_file, line_of
from twin.policy import Policy
from twin.policy_code import said, their_code
from twin.policy_declarations import check_declarations
from twin.policy_parameters import Parameter, PolicyFileError, parameters_of, resolved
from twin.policy_sources import Source, UnknownPolicy, folders, names, shadowed, source

__all__ = ["PolicyFile", "UnknownPolicy", "find", "folders", "names"]


@dataclass(frozen=True)
class PolicyFile:
    """A policy that was found: the class, where it is, and what its constructor takes."""

    name: str
    source: Source
    policy: type[Policy]
    file: Path
    sha256: str
    parameters: tuple[Parameter, ...]

    def shadowed(self, policy_path: str | Path | None = None) -> list[str]:
        """Which others of the same name are not used, a line each."""
        others = shadowed(self.source, policy_path)
        return [f"policy={self.name}: {self.source} is used, not {_in_words(other)}" for other in others]

    def provenance(self) -> dict[str, str]:
        """Who does the scheduling, for the results: class, file, hash, what it says of itself."""
        return {
            "class": self.policy.__name__,
            "file": str(self.file),
            "sha256": self.sha256,
            "description": (self.policy.__doc__ or "").strip().partition("\n")[0],
        }

    def build(self, given: dict[str, Any]) -> tuple[Policy, dict[str, Any]]:
        """The policy made with these parameters, and all parameters with the defaults filled in.

        Raises `PolicyFileError` for an unknown parameter, a value of another type, what the constructor refuses or raises,
        and for a hook or declaration that is none.
        """
        values = resolved(self.name, self.parameters, given)
        with their_code(self.file, "in the constructor"):
            try:
                policy = self.policy(**values)
            except ValueError as error:  # the constructor refuses a value, in its own words
                raise PolicyFileError(f"policy={self.name}: {said(error)}") from error
            check_declarations(policy, f"{self.file}:{line_of(self.policy)}")
        return policy, values


def find(name: str, policy_path: str | Path | None = None) -> PolicyFile:
    """The policy of that name; raises `PolicyFileError` (one line, with file and line) when it cannot be had."""
    return load(source(name, policy_path))


def load(place: Source) -> PolicyFile:
    """The policy that is there; raises `PolicyFileError` when it cannot be had."""
    return _from_entry_point(place) if place.file is None else _from_file(place, place.file)


def _in_words(place: Source) -> str:
    return f"the one that comes with twin ({place})" if place.built_in else str(place)


def _from_file(place: Source, file: Path) -> PolicyFile:
    policy, sha256 = from_file(file, place.name, "policies" if place.built_in else None, Policy, "policy")
    return _checked(place, policy, file, sha256)


def _from_entry_point(place: Source) -> PolicyFile:
    return _checked(place, *from_entry_point(place.point, f"policy={place.name}: {place}", Policy))


def _checked(place: Source, policy: type[Policy], file: Path, sha256: str) -> PolicyFile:
    check_docstring(policy, file)
    return PolicyFile(place.name, place, policy, file, sha256, parameters_of(policy, constructor_at(policy, file)))
