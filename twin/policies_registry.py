"""Finds a policy by name: one file, one class.

Looked into, in this order: `policies/` of the working directory, the folder `policy_path`, the policies that come with
the package, and entry points of the group `twin.policies`. Nothing is registered by hand, and no file but the one asked
for is imported.
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

from twin.nearest import nearest
from twin.policy import Policy
from twin.policy_code import said, their_code
from twin.policy_declarations import check_declarations
from twin.policy_parameters import Parameter, PolicyFileError, parameters_of, resolved

BUILT_IN = Path(__file__).resolve().parents[1] / "policies"
ENTRY_POINTS = "twin.policies"


class UnknownPolicy(PolicyFileError):
    """No file and no entry point has the name."""


@dataclass(frozen=True)
class PolicyFile:
    """A policy that was found: the class, where it is, and what its constructor takes."""

    name: str
    policy: type[Policy]
    file: Path
    sha256: str
    parameters: tuple[Parameter, ...]

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
    if not name.isidentifier():
        raise UnknownPolicy(f"policy={name}: a policy's name is the name of its file without .py{_known(policy_path)}")
    for folder in folders(policy_path):
        file = folder / f"{name}.py"
        if file.is_file():
            return _from_file(name, file)
    found = _entry_points().get(name)
    if found is not None:
        return _from_entry_point(name, found)
    for folder in folders(policy_path):
        if (folder / f"{name}.py").is_dir():
            raise UnknownPolicy(f"policy={name}: {folder / f'{name}.py'} is a folder; a policy is one file")
    raise UnknownPolicy(f"policy={name}: no such policy{nearest(name, names(policy_path))}{_known(policy_path)}")


def folders(policy_path: str | Path | None = None) -> list[Path]:
    """Where policies are looked for, first one first."""
    given = [] if policy_path is None else [Path(policy_path)]
    for folder in given:
        if not folder.is_dir():
            raise PolicyFileError(f"policy_path={folder}: no such folder")
    return [Path.cwd() / "policies", *given, BUILT_IN]


def names(policy_path: str | Path | None = None) -> list[str]:
    """All names that `find` would take, sorted; nothing is imported."""
    files = {file.stem for folder in folders(policy_path) for file in folder.glob("[!_]*.py") if file.is_file()}
    return sorted(files | set(_entry_points()))


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points  # 20 ms that a built-in policy need not pay

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _known(policy_path: str | Path | None) -> str:
    return f" (policies: {', '.join(names(policy_path))})"


def _from_file(name: str, file: Path) -> PolicyFile:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise PolicyFileError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    sha256 = hashlib.sha256(content).hexdigest()
    module = _imported(name, file, sha256)
    return _checked(name, _only_policy(module, file), file, sha256)


def _imported(name: str, file: Path, sha256: str) -> ModuleType:
    """The module of a file, once per content; the built-in ones under the names by which they can be imported."""
    module_name = f"policies.{name}" if file.parent == BUILT_IN else f"policy_{name}_{sha256[:12]}"
    loaded = sys.modules.get(module_name)
    if loaded is not None and loaded.__file__ == str(file):
        return loaded
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # before it runs: dataclasses look their module up
    try:
        with their_code(file, "while it was imported"):
            spec.loader.exec_module(module)
    except BaseException:  # Ctrl-C too: half a module must not be found again
        del sys.modules[module_name]
        raise
    return module


def _only_policy(module: ModuleType, file: Path) -> type[Policy]:
    found = list(_policies_in(module))
    if not found:
        raise PolicyFileError(f"{file}:1: no class derived from twin.policy.Policy")
    if len(found) > 1:
        listed = " and ".join(f"{policy.__name__} (line {_line_of(policy)})" for policy in found)
        raise PolicyFileError(f"{file}:{_line_of(found[1])}: one policy a file, but here are {listed}")
    return found[0]


def _policies_in(module: ModuleType) -> Iterator[type[Policy]]:
    """The policies that the module itself defines; a leading underscore marks a helper."""
    for name, value in vars(module).items():
        own = inspect.isclass(value) and issubclass(value, Policy) and value.__module__ == module.__name__
        if own and not name.startswith("_"):
            yield value


def _line_of(policy: type[Policy]) -> int:
    try:
        return inspect.getsourcelines(policy)[1]
    except OSError:
        return 1


def _from_entry_point(name: str, point: Any) -> PolicyFile:
    where = f"policy={name}: entry point {point.value}"
    with their_code(where, "while it was imported"):
        policy = point.load()
    if not (inspect.isclass(policy) and issubclass(policy, Policy)):
        raise PolicyFileError(f"{where} is no class derived from twin.policy.Policy")
    try:
        file = Path(inspect.getfile(policy))
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    except (TypeError, OSError) as error:  # a class of no file
        raise PolicyFileError(f"{where}: its file cannot be read: {said(error)}") from error
    return _checked(name, policy, file, sha256)


def _checked(name: str, policy: type[Policy], file: Path, sha256: str) -> PolicyFile:
    where = f"{file}:{_line_of(policy)}"
    if not (policy.__dict__.get("__doc__") or "").strip():
        raise PolicyFileError(f"{where}: {policy.__name__} has no docstring; say in a line what it does")
    return PolicyFile(name, policy, file, sha256, parameters_of(policy, where))
