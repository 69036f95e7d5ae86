"""The folder `conf/`: its groups, the choices of each, and what Hydra makes of them."""

import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = "config"  # the file of conf/ that says what a run of the simulator is made of
CONF = Path(__file__).resolve().parents[2] / "conf"


def choices(group: str) -> list[str]:
    """The names that a group may take, sorted; empty when there is no such group."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml")) if group else []


def is_group(name: str) -> bool:
    """Whether `name=...` chooses a file of a group rather than setting an option."""
    return bool(name) and (CONF / name).is_dir()


def choices_with(group: str, option: str) -> list[str]:
    """Which choices of a group have the option at their top level."""
    pattern = re.compile(rf"^{re.escape(option)}:", re.MULTILINE)
    return [name for name in choices(group) if pattern.search((CONF / group / f"{name}.yaml").read_text("utf-8"))]


class HydraValues(NamedTuple):
    """What Hydra made of `conf/` and the overrides."""

    values: dict[str, Any]  # plain and resolved, without Hydra's own
    run_dir: str  # hydra.run.dir
    choices: dict[str, str]  # the choice of every group of ours


def hydra_values(overrides: list[str], root: str = ROOT) -> HydraValues:
    """Composes the file `root` of `conf/`; overrides are in Hydra's own grammar.

    Raises `HydraException` and `OmegaConfBaseException`.
    """
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(version_base="1.3", config_dir=str(CONF), job_name="twin"):
        config = compose(root, overrides=overrides, return_hydra_config=True)
    run_dir = str(config.hydra.run.dir)
    groups = {str(group): str(name) for group, name in config.hydra.runtime.choices.items()}
    chosen = {group: name for group, name in groups.items() if is_group(group) and not group.startswith("hydra/")}
    OmegaConf.set_struct(config, False)
    del config["hydra"]
    values = OmegaConf.to_container(config, resolve=True)
    assert isinstance(values, dict)
    return HydraValues({str(key): value for key, value in values.items()}, run_dir, chosen)


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested options as dotted names; an empty section stands for itself."""
    names: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            names |= flat(value, f"{name}.")
        else:
            names[name] = value
    return names
