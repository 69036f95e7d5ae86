"""Values that need no quotes on our command line, though Hydra's grammar wants them.

`trace.arrivals=gamma(8,cv=2)` is a name, an equals sign and a comma too many for Hydra. The options of `UNQUOTED` hold
distributions, or a policy's part with its parameters; their values are quoted here before Hydra sees them.
"""

import re

from twin.cli.errors import UserError

UNQUOTED = (
    *(f"trace.{name}" for name in ("arrivals", "prompt_tokens", "output_tokens", "priority", "users", "deadline_s")),
    *(f"policy.{name}" for name in ("admission", "victim", "preemption_mode", "pause")),
)
OVERRIDE = re.compile(r"(?P<sign>\+{0,2})(?P<key>[^=]+)=(?P<value>.*)", re.DOTALL)


def key_of(override: str) -> str:
    """The option that an override sets; empty when it is no assignment."""
    match = OVERRIDE.fullmatch(override)
    return match["key"] if match else ""


def quoted(override: str) -> str:
    """The override as Hydra needs it; unchanged when it is another option's, or quoted already."""
    match = OVERRIDE.fullmatch(override)
    if match is None or match["key"] not in UNQUOTED:
        return override
    value = match["value"].strip()
    if len(elements(value)) > 1 and value[0] not in "'\"":
        raise UserError(f"{override}: one value is needed here; a list of values is a sweep: python -m twin run -m ...")
    if "(" not in value or value[0] in "'\"":
        return override
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"{match['sign']}{match['key']}='{escaped}'"


def elements(value: str) -> list[str]:
    """`value` split at the commas that stand outside all brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in value:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts]
