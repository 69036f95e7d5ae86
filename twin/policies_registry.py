"""Finds a policy by name: one file, one class.

Where it is looked for is in `twin.policy_sources`. Nothing is registered by hand, and no file but the one asked for is
imported.
"""

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

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
            check_declarations(policy, f"{self.file}:{_line_of(self.policy)}")
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
    try:
        content = file.read_bytes()
    except OSError as error:
        raise PolicyFileError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    sha256 = hashlib.sha256(content).hexdigest()
    module_name = f"policies.{place.name}" if place.built_in else f"policy_{place.name}_{sha256[:12]}"
    module = _imported(module_name, file, content)
    return _checked(place, _only_policy(module, file), file, sha256)


def _imported(module_name: str, file: Path, content: bytes) -> ModuleType:
    """The module of a file, once per content; the built-in ones under the names by which they can be imported."""
    loaded = sys.modules.get(module_name)
    if loaded is not None and loaded.__file__ == str(file):
        return loaded
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # before it runs: dataclasses look their module up
    try:
        with their_code(file, "while it was imported"):  # what was hashed is what runs: no compiled file of an older one
            exec(compile(content, str(file), "exec", dont_inherit=True), vars(module))
    except BaseException:  # Ctrl-C too: half a module must not be found again
        del sys.modules[module_name]
        raise
    return module


def _only_policy(module: ModuleType, file: Path) -> type[Policy]:
    found = list(dict.fromkeys(_policies_in(module)))
    if not found:
        raise PolicyFileError(_without_policy(module, file))
    if len(found) > 1:
        listed = " and ".join(f"{policy.__name__} (line {_line_of(policy)})" for policy in found)
        raise PolicyFileError(f"{file}:{_line_of(found[1])}: one policy a file, but here are {listed}")
    return found[0]


def _without_policy(module: ModuleType, file: Path) -> str:
    """What to do in a file that defines no policy."""
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__:
            named = f"{file}:{_line_of(value)}: class {name}"
            if issubclass(value, Policy):
                return f"{named} is a helper, by its underscore; name the policy without one"
            return f"{named} is not derived from twin.policy.Policy; write class {name}(Policy)"
    return f"{file}:1: no class derived from twin.policy.Policy"


def _policies_in(module: ModuleType) -> Iterator[type[Policy]]:
    """The policies that the module itself defines; a leading underscore marks a helper."""
    for name, value in vars(module).items():
        own = inspect.isclass(value) and issubclass(value, Policy) and value.__module__ == module.__name__
        if own and not name.startswith("_"):
            yield value


def _line_of(policy: type) -> int:
    try:
        return inspect.getsourcelines(policy)[1]
    except OSError:
        return 1


def _from_entry_point(place: Source) -> PolicyFile:
    where = f"policy={place.name}: {place}"
    with their_code(where, "while it was imported"):
        policy = place.point.load()
    if not (inspect.isclass(policy) and issubclass(policy, Policy)):
        raise PolicyFileError(f"{where} is no class derived from twin.policy.Policy")
    try:
        file = Path(inspect.getfile(policy))
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    except (TypeError, OSError) as error:  # a class of no file
        raise PolicyFileError(f"{where}: its file cannot be read: {said(error)}") from error
    return _checked(place, policy, file, sha256)


def _checked(place: Source, policy: type[Policy], file: Path, sha256: str) -> PolicyFile:
    where = f"{file}:{_line_of(policy)}"
    if not (policy.__dict__.get("__doc__") or "").strip():
        raise PolicyFileError(f"{where}: {policy.__name__} has no docstring; say in a line what it does")
    own = getattr(policy.__dict__.get("__init__"), "__code__", None)
    if own is not None and own.co_filename == str(file):
        where = f"{file}:{own.co_firstlineno}"  # the constructor's
    return PolicyFile(place.name, place, policy, file, sha256, parameters_of(policy, where))
