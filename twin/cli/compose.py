"""From the words of the command line to one plain dict, by Hydra's compose API.

Hydra reads `conf/`, applies the overrides and resolves interpolations; what it says of a bad override is put into
one line by `twin.cli.complaints`. Two things are not Hydra's: `policy=NAME` and `predictor=NAME` name a file
(so the first becomes `policy.name=NAME`, and a policy's own parameters are keys to add), and distributions need no quotes.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.cli.errors import UserError, one_line
from twin.cli.groups import ROOT, flat, hydra_values
from twin.cli.quoting import OVERRIDE, key_of, quoted
from twin.policy_parameters import OF_EVERY_POLICY

NAMED_BY_FILE = {"policy": OF_EVERY_POLICY, "predictor": ("name",)}  # and the options that are not the file's own


@dataclass(frozen=True)
class Composed:
    """A composed configuration: `values` is plain and resolved; `run_dir` is `hydra.run.dir`."""

    values: dict[str, Any]
    run_dir: Path
    choices: dict[str, str]  # of every group
    overrides: tuple[str, ...] = ()  # as they were typed

    def given(self, key: str) -> bool:
        """Whether the command line sets `key` itself (a preset or default does not count)."""
        return any(key_of(override) == key for override in self.overrides)


def compose(overrides: list[str], for_help: bool = False, root: str = ROOT) -> Composed:
    """Composes the file `root` of `conf/` with the overrides. Raises `UserError` for any that is wrong.

    `for_help`: an option that must be given may be missing, for it is what one wants to read of.
    """
    for override in overrides:
        if override in ("-m", "--multirun"):
            raise UserError(f"{override}: sweeps over several values are of twin run alone; give each option one value")
        if override.startswith("-"):
            raise UserError(f"{override}: unknown flag; options are written key=value, see --help")
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from twin.cli.complaints import explained, refuse_additions, refuse_odd

    for_hydra = [_for_hydra(override) for override in overrides]
    for typed, override in zip(overrides, for_hydra, strict=True):
        refuse_odd(typed, override)
    try:
        made = hydra_values(for_hydra, root)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(explained(error, for_hydra, root)) from error
    except ValueError as error:  # integers of thousands of digits, say
        raise UserError(one_line(str(error))) from error
    refuse_additions(overrides, for_hydra, made, root)
    if not made.run_dir:
        raise UserError("hydra.run.dir: empty; give hydra.run.dir=FOLDER, or leave it out for one named after the time")
    for key, value in flat(made.values).items():
        if value == "???" and not for_help:  # Hydra's word for what has no default
            raise UserError(f"{key}: missing; give {key}=...")
    return Composed(made.values, Path(made.run_dir), made.choices, tuple(overrides))


def _for_hydra(override: str) -> str:
    match = OVERRIDE.fullmatch(override)
    if match is None:
        return quoted(override)
    kind, _, option = match["key"].partition(".")
    if kind in NAMED_BY_FILE and not option:
        return f"{kind}.name={match['value']}"
    if kind in NAMED_BY_FILE and option not in NAMED_BY_FILE[kind]:
        return f"++{match['key']}={match['value']}"
    return quoted(override)
