"""What a policy looks at in a request and no request of the trace has: vtc where nobody says who asks is only fcfs."""

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from twin.policy_assembly import Assembly

if TYPE_CHECKING:
    from traces import Trace

TRAITS = {  # of a request: (what is missing, what it means, the option that makes up for it)
    "user": ("a user", "all are one user's", "trace.users"),
    "deadline_s": ("a deadline", "none is earlier than another", "trace.deadline_s"),
    "priority": ("a priority", "none is more urgent than another", "trace.priority"),
}


def missing_traits(assembly: Assembly, trace: "Trace") -> list[str]:
    """A line for each policy or part, and each trait that its file asks requests for and that none of them has."""
    files = {f"policy={assembly.main.file.name}": assembly.main.file.file}
    files |= {f"policy.{role}={part.file.name}": part.file.file for role, part in assembly.parts.items()}
    lines = []
    for name, file in files.items():
        asked = _attributes(file)
        for trait, (what, meaning, option) in TRAITS.items():
            if trait in asked and not _given(getattr(trace, trait)):
                lines.append(f"{name} asks for {trait}, but no request of this trace has {what}: {meaning} ({option}=...)")
    return lines


def _attributes(file: Path) -> set[str]:
    """Names of the attributes that a file's code reads."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # a class that was made otherwise: nothing is known
        return set()
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def _given(column: Iterable[object] | None) -> bool:
    """Whether any request has a value of its own; absent are "", nan, and the priority 0."""
    return column is not None and any(value and value == value for value in column)
