"""A policy that is handed over as a class or an object instead of a name."""

import hashlib
import inspect
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twin.cli.errors import UserError, one_line
from twin.policies_registry import PolicyFile
from twin.policy import Policy
from twin.policy_declarations import check_declarations
from twin.policy_parameters import PolicyFileError, parameters_of
from twin.policy_sources import Source

NO_CERTIFICATE = (
    "policy {name} is of no file in a folder of policies and has no certificate: every plan is checked as it is made, but "
    "the engine refuses it; to certify it put it into policies/NAME.py and run: python -m twin check policy=NAME"
)


@dataclass(frozen=True)
class ReadyMade(PolicyFile):
    """A policy that exists already; each run gets a copy, so that none sees what another left in it."""

    instance: Policy = field(default_factory=Policy)

    def build(self, given: dict[str, Any]) -> tuple[Policy, dict[str, Any]]:
        if given:
            raise PolicyFileError(
                f"policy.{next(iter(given))}: this policy is made already; give its parameters to its class"
            )
        check_declarations(self.instance, str(self.file))
        return deepcopy(self.instance), {}


def found_in(policy: Any) -> PolicyFile:
    """The class or object as a file of policies would have given it. Raises UserError for what is no policy."""
    kind: type = policy if inspect.isclass(policy) else type(policy)
    if not issubclass(kind, Policy) or kind is Policy:
        raise UserError(
            f"policy={one_line(repr(policy), 100)}: must be a name, a class derived from twin.Policy, or an object of one"
        )
    name = kind.__name__
    file, sha256 = _origin(kind)
    place = Source(name, file)
    try:
        if policy is not kind:
            return ReadyMade(name, place, kind, file, sha256, (), policy)
        return PolicyFile(name, place, kind, file, sha256, parameters_of(kind, str(file)))
    except PolicyFileError as error:
        raise UserError(str(error)) from error


def _origin(kind: type) -> tuple[Path, str]:
    """Where the class was written, and the hash of that file; of one typed into a notebook, of its own text, or of
    its methods."""
    try:
        file = Path(inspect.getfile(kind))
        if file.is_file():
            return file, hashlib.sha256(file.read_bytes()).hexdigest()
    except (TypeError, OSError):
        pass  # typed in: there is no file
    return Path("<notebook>"), hashlib.sha256(_text(kind).encode()).hexdigest()


def _text(kind: type) -> str:
    """What was typed: of the class, or (a notebook's classes belong to no file) of its methods; else its bytecode."""
    try:
        return inspect.getsource(kind)
    except (TypeError, OSError):
        pass
    methods = [value for value in vars(kind).values() if inspect.isfunction(value)]
    try:
        return "".join(map(inspect.getsource, methods))
    except (TypeError, OSError):  # made by exec(), say
        return repr([(each.__name__, each.__code__.co_code, each.__code__.co_names) for each in methods])
