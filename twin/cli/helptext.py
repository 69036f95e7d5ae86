"""`--help` of a command that takes options: made from `conf/`, its comments, and the policy's constructor."""

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from twin import predictors_registry
from twin.cli.compose import NAMED_BY_FILE, Composed, compose
from twin.cli.errors import naming
from twin.cli.groups import CONF, ROOT, choices, flat
from twin.cli.options import check_options
from twin.policies_registry import find, names
from twin.policy_assembly import names_part, parse
from twin.policy_parameters import PolicyFileError
from twin.policy_parts import ROLES

WIDTH = 120
COMMENTED = re.compile(r"^(?P<indent> *)(?P<key>\w+):(?P<value>[^#]*)(?:#\s*(?P<comment>.*))?$")


def wants_help(words: list[str]) -> bool:
    """Whether the words ask for help."""
    return "--help" in words or "-h" in words


def help_text(
    command: str,
    does: str,
    example: str,
    words: list[str],
    sections: Iterable[str] | None = None,
    program: str = "twin",
    root: str = ROOT,
) -> str:
    """Usage, groups, options with their values under the choices among `words`, one example.

    `sections` restricts groups and options to those that the command reads; None shows all.
    """
    composed = compose([word for word in words if word not in ("--help", "-h")], for_help=True, root=root)
    check_options(composed.values)
    shown = [name for name in composed.values if sections is None or name in sections]
    lines = [f"usage: python -m {program} {command} [group=choice ...] [option=value ...]", "", does, ""]
    lines += ["groups (the choice now: all choices)", *_table(_groups(composed, shown)), ""]
    lines += ["options (the value now: what it is)", *_table(_options(composed, shown, root)), ""]
    for option in _named_by_file(composed, shown):
        lines += _parameters(composed, option)
    return "\n".join([*lines, f"example: {example}", ""])


def _groups(composed: Composed, shown: list[str]) -> Iterator[tuple[str, str]]:
    if "policy" in shown:
        with naming("policy_path"):
            yield f"policy={composed.values['policy']['name']}", " ".join(names(composed.values["policy_path"]))
    if "predictor" in shown:
        known = predictors_registry.names(composed.values["policy_path"])
        yield f"predictor={composed.values['predictor']['name']}", " ".join(known)
    for group, chosen in sorted(composed.choices.items()):
        if len(choices(group)) > 1 and (group in shown or group == "system"):
            yield f"{group}={chosen}", " ".join(choices(group))


def _options(composed: Composed, shown: list[str], root: str) -> Iterator[tuple[str, str]]:
    comments = _comments(CONF / f"{ROOT}.yaml", "") | _comments(CONF / f"{root}.yaml", "")
    for group, chosen in composed.choices.items():
        comments |= _comments(CONF / group / f"{chosen}.yaml", f"{group}.")
    for name, value in flat({section: composed.values[section] for section in shown}).items():
        kind, _, option = name.partition(".")
        if kind not in NAMED_BY_FILE or option in NAMED_BY_FILE[kind]:
            yield f"{name}={_shown(value)}", comments.get(name, "")


def _named_by_file(composed: Composed, shown: list[str]) -> Iterator[str]:
    """The options whose value names a file with parameters of its own."""
    if "policy" in shown:
        yield "policy"
        for role in ROLES:
            if names_part(role, composed.values["policy"].get(role)):
                yield f"policy.{role}"
    if "predictor" in shown:
        yield "predictor"


def _parameters(composed: Composed, option: str) -> list[str]:
    """What the chosen policy, part or predictor says of itself, and its own parameters."""
    kind, _, role = option.partition(".")
    try:
        name, given = parse(option, composed.values[kind][role]) if role else (str(composed.values[kind]["name"]), {})
        found = (find if kind == "policy" else predictors_registry.find)(name, composed.values["policy_path"])
    except PolicyFileError as error:
        return [f"{option}: {error}", ""]
    prefix = "" if role else f"{kind}."  # a part has its parameters in brackets
    rows = []
    for parameter in found.parameters:
        value = "?" if parameter.required else _shown(given.get(parameter.name, parameter.default))
        rows.append((f"{prefix}{parameter.name}={value}", parameter.type_text))
    own = _table(rows) if rows else ["  it has no parameters of its own"]
    about = found.provenance()
    return [f"{option}={name} ({about['class']} of {about['file']}): {about['description']}", *own, ""]


def _comments(file: Path, prefix: str) -> dict[str, str]:
    """Option name to the comment behind it, for a file of at most two levels."""
    comments: dict[str, str] = {}
    section = name = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        match = COMMENTED.match(line)
        if match is None:
            if line.startswith(" ") and line.strip().startswith("#") and name in comments:  # goes on
                comments[name] += line.strip().removeprefix("#")
            continue
        if not match["indent"]:
            section = f"{match['key']}." if not match["value"].strip() else ""
        name = f"{prefix}{section if match['indent'] else ''}{match['key']}"
        if match["comment"]:
            comments[name] = match["comment"]
    return comments


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Two columns within `WIDTH`, the second one wrapped."""
    rows = list(rows)
    width = min(40, max((len(left) for left, _ in rows), default=0))
    lines: list[str] = []
    for left, right in rows:
        first, *further = textwrap.wrap(right, WIDTH - width - 4) or [""]
        lines.append(f"  {left:<{width}}  {first}".rstrip())
        lines += [" " * (width + 4) + text for text in further]
    return lines


def _shown(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
