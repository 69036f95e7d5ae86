"""What Hydra says of a bad override, in one line that names the option and what would be right."""

import re
from typing import Any

from twin.cli.errors import UserError, one_line
from twin.cli.groups import HydraValues, choices, choices_with, flat, hydra_values, is_group
from twin.cli.quoting import key_of
from twin.nearest import nearest


def refuse_odd(typed: str, for_hydra: str) -> None:
    """Refuses what Hydra cannot read, would take silently, or would answer with an internal error.

    `for_hydra` is the override in Hydra's grammar, `typed` what the user wrote. Raises `UserError`.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(for_hydra)
    except (HydraException, ValueError, RecursionError) as error:  # integers of thousands of digits, lists without end
        hint = f"write key=value, with odd letters in quotes: \"{key_of(typed) or 'key'}='...'\""
        raise UserError(f"{typed}: cannot be read ({_first_line(str(error))}); {hint}") from error
    key = override.key_or_group
    if override.is_sweep_override():
        raise UserError(f"{typed}: one value is needed here; a list of values is a sweep: python -m twin run -m ...")
    if not key:
        raise UserError(f"{typed}: no option before the equals sign; write key=value")
    if is_group(key) and not override.is_delete() and not isinstance(override.value(), str):
        raise UserError(f"{typed}: {key} takes one of the names {', '.join(choices(key))}")


def refuse_additions(typed: list[str], for_hydra: list[str], made: HydraValues, root: str) -> None:
    """Refuses `+key=value` and `++key=value` where no option or group is called so: Hydra would add what nothing ever reads.

    A policy's or predictor's own parameters are not among them: it knows its own. Raises `UserError`.
    """
    added = [key_of(word) for word in typed if word.startswith("+")]
    own = ("policy.", "predictor.", "hydra.", "hydra/")
    added = [key.partition("@")[0] for key in added if not key.startswith(own)]
    if not added:
        return
    kept = [word for word in for_hydra if not word.startswith("+")]
    without = hydra_values(kept, root)
    known = set(flat(without.values))
    for key in added:
        if is_group(key) and key in without.choices:
            continue
        extra = [name for name in flat(made.values) if name == key or name.startswith(f"{key}.")]
        if any(name not in known for name in extra):
            raise UserError(_unknown_option(key, kept, root))


def explained(error: Exception, overrides: list[str], root: str) -> str:
    """One line for an exception that Hydra or OmegaConf raised on composing `overrides`."""
    from hydra.errors import MissingConfigException

    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _missing_choice(error.missing_cfg_file, sorted(error.options or []))
    merged = re.match(r"Error merging override (.*)", str(error), re.DOTALL)
    if merged and error.__cause__ is not None:
        return f"{one_line(merged[1])}: {_first_line(str(error.__cause__))}"
    typed = re.match(r"Could not (?:override|delete from config\.) '([^']+)'", str(error))
    key = getattr(error, "full_key", None)
    if typed and not key:
        return _unknown_option(typed.group(1), overrides, root)
    return f"{key}: {_first_line(str(error))}" if key else _first_line(str(error))


def _missing_choice(file: str, options: list[str]) -> str:
    group, _, name = file.rpartition("/")
    return f"{group}={name}: no such choice{nearest(name, options)} ({group} may be: {', '.join(options)})"


def _unknown_option(key: str, overrides: list[str], root: str) -> str:
    groups = hydra_values([], root).choices  # conf/ has others, of other commands
    made = hydra_values([text for text in overrides if text.partition("=")[0] in groups], root)
    known = list(flat(made.values))
    if key in known:
        return f"~{key}: null already, there is nothing to delete"
    section, _, option = key.rpartition(".")
    elsewhere = [f"{section}={name}" for name in choices_with(section, option)]
    if elsewhere:
        return f"{key}: the chosen {section} has no such option; it belongs to {' and '.join(elsewhere)}"
    top = sorted({*made.values, *made.choices})
    siblings = [name for name in known if section and name.startswith(f"{section}.")]
    if siblings:
        return f"{key}: no such option{nearest(key, siblings)} (options of {section}: {', '.join(siblings)})"
    hint = nearest(key, [*known, *top]) or nearest(section, top)
    return f"{key}: no such option{hint} (options and groups: {', '.join(top)})"


def _first_line(message: Any) -> str:
    skipped = ("See https", "Error parsing override")
    lines = [line for line in message.split("\n") if line.strip() and not line.startswith(skipped)]
    return one_line(lines[0].replace("LexerNoViableAltException:", "cannot read")) if lines else "not readable"
