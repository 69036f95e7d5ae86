"""From Python's keywords to the words of the command line.

policy="srpt", trace="chat"       a group or an option of no group, by its name
scheduler__max_num_seqs=64        two underscores are a dot: scheduler.max_num_seqs
{"scheduler.max_num_seqs": 64}    dotted names, in a dict
scheduler={"max_num_seqs": 64}    a section's options, in a dict
rate=4                            any other name is that of the one option so called, here trace.rate; options of
                                  several sections need theirs, and so do a policy's parameters that an option shares
"""

import errno
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.cli.compose import NAMED_BY_FILE, compose
from twin.cli.errors import UserError, one_line
from twin.cli.groups import flat, is_group
from twin.cli.quoting import UNQUOTED
from twin.nearest import nearest
from twin.policy_parameters import PolicyFileError

if TYPE_CHECKING:
    from twin.policies_registry import PolicyFile

PLAIN = re.compile(r"[A-Za-z_./][\w./-]*")  # text that Hydra's grammar takes as it stands
NO_TEXT = ("true", "false", "null", "nan", "inf")  # words that would be read as something else


def words_from(
    options: Mapping[str, Any] | None, keywords: Mapping[str, Any], policy: "PolicyFile | None" = None
) -> list[str]:
    """The overrides, groups first; `policy`: one that was handed over and cannot be found by its name.

    Raises UserError for a name that is no option's or several options', or given twice.
    """
    given: dict[str, Any] = {}
    for name, value in (*_dotted(options or {}), *_dotted({key.replace("__", "."): keywords[key] for key in keywords})):
        if name in given:
            raise UserError(f"{name}: given twice")
        given[name] = value
    groups = {name: value for name, value in given.items() if _is_choice(name)}
    chosen = [f"{name}={text(name, value)}" for name, value in groups.items()]
    rest = {name: value for name, value in given.items() if name not in groups}
    bare = [name for name in rest if "." not in name]
    full = _full_names(bare, chosen, policy) if bare else {}
    words = []
    for name, value in rest.items():
        option = full.get(name, name)
        if option != name and option in rest:
            raise UserError(f"{name}: given twice, as {option} too")
        words.append(f"{option}={text(option, value)}")
    return [*chosen, *words]


def _dotted(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested dicts as dotted names."""
    if not isinstance(options, Mapping):
        raise UserError(f"the options must be a dict, {{'scheduler.max_num_seqs': 64}}, not {type(options).__name__}")
    for key, value in options.items():
        if not isinstance(key, str):
            raise UserError(f"{key!r}: the name of an option is text")
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _is_choice(name: str) -> bool:
    return is_group(name) or name in NAMED_BY_FILE


def _full_names(names: list[str], chosen: list[str], policy: "PolicyFile | None") -> dict[str, str]:
    """The dotted name of each, under these choices of the groups."""
    composed = compose(chosen)
    values = composed.values
    options = list(flat(values))
    own = _parameters(values, policy)
    found = {}
    for name in names:
        if name in values:  # an option of no group: seed, warmup_s
            found[name] = name
            continue
        matches = [option for option in (*options, *own) if option.rpartition(".")[2] == name]
        if not matches:
            last = {option.rpartition(".")[2]: option for option in (*own, *options)}
            hint = nearest(name, last)
            raise UserError(f"{name}: no such option{hint}; options of a section are written section__option")
        if len(matches) > 1:
            written = ", ".join(match.replace(".", "__") for match in matches)
            raise UserError(f"{name}: there are several options of that name; write one of {written}")
        found[name] = matches[0]
    return found


def _parameters(values: Mapping[str, Any], policy: "PolicyFile | None") -> list[str]:
    """Those that the chosen policy and predictor have of their own; none of one that cannot be had, which others say."""
    from twin import policies_registry, predictors_registry

    names = [f"policy.{each.name}" for each in policy.parameters] if policy else []
    for kind, find in (("policy", policies_registry.find), ("predictor", predictors_registry.find)):
        if kind == "policy" and policy is not None:
            continue
        try:
            names += [f"{kind}.{each.name}" for each in find(str(values[kind]["name"]), values["policy_path"]).parameters]
        except PolicyFileError:
            continue
    return names


def text(name: str, value: Any) -> str:
    """A value as the command line has it. Raises UserError for one that no option can have."""
    value = value.tolist() if hasattr(value, "tolist") else value  # numpy's scalars and arrays
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        try:
            return repr(value)
        except ValueError as error:  # integers of thousands of digits
            raise UserError(f"{name}: a number of thousands of digits is more than any option takes") from error
    if isinstance(value, str | Path):
        return _quoted(name, str(value))
    if isinstance(value, list | tuple):
        return f"[{','.join(_element(name, each) for each in value)}]"
    raise UserError(f"{name}={one_line(repr(value), 100)}: must be a number, text, True, False, None or a list")


def path_of(name: str, value: Any) -> Path:
    """A folder that was handed over. Raises UserError for what no file system can name."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise UserError(f"{name}={one_line(repr(value), 100)}: must be the path of a folder")
    try:
        os.stat(value)
    except (ValueError, TypeError) as error:  # a null byte, half a letter
        raise UserError(f"{name}={one_line(str(value), 100)}: no file can be called so ({error})") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UserError(f"{name}={one_line(str(value), 100)}: {(error.strerror or '').lower()}") from error
    return Path(value)  # if there is none, or it is out of reach, who opens it says so


def _element(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}: {_element(name, each)}' for key, each in value.items())}}}"
    return text("", value)


def _quoted(name: str, value: str) -> str:
    if name in UNQUOTED or (PLAIN.fullmatch(value) and value.lower() not in NO_TEXT):
        return value
    escaped = re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + ("\\'" if match[2] else ""), value)
    return "'" + escaped.replace("${", "\\${") + "'"
