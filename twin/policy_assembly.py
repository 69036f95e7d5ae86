"""From what the user wrote to a policy with its parts: `policy=vtc policy.admission=watermark(share=0.05)`."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.core.limits import PAUSE_MODES, PREEMPTION_MODES
from twin.policies_registry import PolicyFile, UnknownPolicy, find
from twin.policy import Policy
from twin.policy_parameters import PolicyFileError, resolved
from twin.policy_parts import ROLES, combined

OWN = {"preemption_mode": PREEMPTION_MODES, "pause": PAUSE_MODES}  # words that name no part
WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class Part:
    """A part as it was found and made."""

    file: PolicyFile
    policy: Policy
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Assembly:
    """A policy ready to schedule, and what it was made from."""

    policy: Policy  # with its parts
    main: Part
    parts: dict[str, Part]  # by role

    def provenance(self) -> dict[str, Any]:
        """Who does the scheduling, for the results: the main policy, and under `parts` each part by its role."""
        parts = {role: part.file.provenance() | {"parameters": part.parameters} for role, part in self.parts.items()}
        return self.main.file.provenance() | ({"parts": parts} if parts else {})

    @property
    def built_in(self) -> bool:
        """Whether the policy and all its parts come with this package."""
        return all(part.file.source.built_in for part in (self.main, *self.parts.values()))

    def shadowed(self, policy_path: str | Path | None = None) -> list[str]:
        """Which others of the same names are not used, a line each."""
        files = {part.file.name: part.file for part in (self.main, *self.parts.values())}
        return [line for file in files.values() for line in file.shadowed(policy_path)]


def assemble(
    name: str,
    parameters: Mapping[str, Any],
    parts: Mapping[str, object] | None = None,
    policy_path: str | Path | None = None,
    found: PolicyFile | None = None,
) -> Assembly:
    """Finds and makes the policy `name` and its parts: `{"admission": "watermark(share=0.05)", "victim": None}`.

    `found`: the policy itself, where it need not be looked for by its name. The same policy with the same parameters is
    one object, whatever its roles. One of the core's own words (`OWN`) is no part. Raises `PolicyFileError`, one line that
    names the option, for what cannot be had or lacks its hook.
    """
    found = found or find(name, policy_path)
    policy, values = found.build(dict(parameters))
    made = [Part(found, policy, values)]
    chosen: dict[str, Part] = {}
    for role in ROLES:
        text = (parts or {}).get(role)
        if not names_part(role, text):
            continue
        chosen[role] = _made(role, text, policy_path, made)
    names = {role: part.file.name for role, part in chosen.items()}
    whole = combined(policy, {role: part.policy for role, part in chosen.items()}, names)
    return Assembly(whole, made[0], chosen)


def names_part(role: str, text: object) -> bool:
    """Whether this value of `policy.ROLE` names a part: it is neither null nor one of the core's own words."""
    return text is not None and text not in OWN.get(role, ())


def _made(role: str, text: object, policy_path: str | Path | None, made: list[Part]) -> Part:
    """The part for a role: one of those made already, if it is the same policy with the same parameters."""
    option = f"policy.{role}"
    name, given = parse(option, text)
    try:
        found = find(name, policy_path)
        values = resolved(name, found.parameters, given, option)
        for part in made:
            if part.file.policy is found.policy and part.parameters == values:
                return part
        policy, values = found.build(values)
    except PolicyFileError as error:
        message = str(error)
        if message.startswith(f"policy={name}:"):
            message = f"{option}{message.removeprefix('policy')}"
        if role in OWN and isinstance(error, UnknownPolicy):
            message = f"{option}={text}: must be {', '.join(OWN[role])} or a policy with the hook {ROLES[role]}; {message}"
        raise PolicyFileError(message) from error
    made.append(Part(found, policy, values))
    return made[-1]


def parse(option: str, text: object) -> tuple[str, dict[str, Any]]:
    """`watermark` or `watermark(share=0.05)`: the name, and the parameters as the command line would type them."""
    problem = PolicyFileError(f"{option}={text}: must be a policy's name, or name(parameter=value, ...)")
    try:
        tree = ast.parse(str(text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise problem from error
    if isinstance(tree, ast.Name):
        return tree.id, {}
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args:
        raise problem
    given: dict[str, Any] = {}
    for keyword in tree.keywords:
        if keyword.arg is None:
            raise problem
        if keyword.arg in given:
            raise PolicyFileError(f"{option}={text}: {keyword.arg} is given twice")
        given[keyword.arg] = _value(keyword.value, problem)
    return tree.func.id, given


def _value(tree: ast.expr, problem: PolicyFileError) -> Any:
    """A number, true, false, null, a word, or text in quotes."""
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, (ast.USub, ast.UAdd)):
        number = _value(tree.operand, problem)
        if type(number) in (int, float):
            return -number if isinstance(tree.op, ast.USub) else number
    elif isinstance(tree, ast.Name):
        return WORDS.get(tree.id.lower(), tree.id)
    elif isinstance(tree, ast.Constant) and isinstance(tree.value, (bool, int, float, str, type(None))):
        return tree.value
    raise problem
