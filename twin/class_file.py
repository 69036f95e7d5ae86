"""A file that defines one class of a kind (a policy, a predictor): imported, and the class found in it."""

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from twin.policy_code import said, their_code
from twin.policy_parameters import PolicyFileError

Base = TypeVar("Base")


def from_file(file: Path, name: str, package: str | None, base: type[Base], noun: str) -> tuple[type[Base], str]:
    """The class of the file, and the hash of its content; `package`: whose module `name` it is, where it comes with twin."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise PolicyFileError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    sha256 = hashlib.sha256(content).hexdigest()
    module_name = f"{noun}_{name}_{sha256[:12]}" if package is None else f"{package}.{name}"
    return only_class(imported(module_name, file, content), file, base, noun), sha256


def from_entry_point(point: Any, where: str, base: type[Base]) -> tuple[type[Base], Path, str]:
    """The class that an installed package's entry point names, its file and that file's hash; `where`: for messages."""
    with their_code(where, "while it was imported"):
        kind = point.load()
    if not (inspect.isclass(kind) and issubclass(kind, base)):
        raise PolicyFileError(f"{where} is no class derived from {base.__module__}.{base.__name__}")
    try:
        file = Path(inspect.getfile(kind))
        return kind, file, hashlib.sha256(file.read_bytes()).hexdigest()
    except (TypeError, OSError) as error:  # a class of no file
        raise PolicyFileError(f"{where}: its file cannot be read: {said(error)}") from error


def imported(module_name: str, file: Path, content: bytes) -> ModuleType:
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


def only_class(module: ModuleType, file: Path, base: type[Base], noun: str) -> type[Base]:
    """The class derived from `base` that the module defines; `noun` is what such a class is called in messages.

    Raises `PolicyFileError` where there is none, more than one, or one without a docstring.
    """
    found = list(dict.fromkeys(_classes_in(module, base)))
    if not found:
        raise PolicyFileError(_without_class(module, file, base, noun))
    if len(found) > 1:
        listed = " and ".join(f"{kind.__name__} (line {line_of(kind)})" for kind in found)
        raise PolicyFileError(f"{file}:{line_of(found[1])}: one {noun} a file, but here are {listed}")
    return found[0]


def check_docstring(kind: type, file: Path) -> None:
    """Raises `PolicyFileError` for a class that does not say what it does."""
    if not (kind.__dict__.get("__doc__") or "").strip():
        raise PolicyFileError(f"{file}:{line_of(kind)}: {kind.__name__} has no docstring; say in a line what it does")


def line_of(kind: type) -> int:
    """Where a class begins; 1 when its text cannot be had."""
    try:
        return inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):  # typed into a notebook, say
        return 1


def constructor_at(kind: type, file: Path) -> str:
    """File and line of the class's constructor, or of the class where it inherits one."""
    own = getattr(kind.__dict__.get("__init__"), "__code__", None)
    line = own.co_firstlineno if own is not None and own.co_filename == str(file) else line_of(kind)
    return f"{file}:{line}"


def _classes_in(module: ModuleType, base: type[Base]) -> Iterator[type[Base]]:
    """Those that the module itself defines; a leading underscore marks a helper."""
    for name, value in vars(module).items():
        own = inspect.isclass(value) and issubclass(value, base) and value.__module__ == module.__name__
        if own and not name.startswith("_"):
            yield value


def _without_class(module: ModuleType, file: Path, base: type, noun: str) -> str:
    """What to do in a file that defines no such class."""
    full_name = f"{base.__module__}.{base.__name__}"
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__:
            named = f"{file}:{line_of(value)}: class {name}"
            if issubclass(value, base):
                return f"{named} is a helper, by its underscore; name the {noun} without one"
            return f"{named} is not derived from {full_name}; write class {name}({base.__name__})"
    return f"{file}:1: no class derived from {full_name}"
