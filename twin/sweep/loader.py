"""How Hydra's launchers get at the configuration of one job without composing it.

A launcher asks its config loader for the configuration of each job, by the job's overrides, and runs the task function
with it. Our overrides are the words of a command line (which `twin.cli.compose` reads, not Hydra's parser), and the task
composes them itself; so all that a launcher needs is where the job's folder is and which words are its own.
"""

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from twin.sweep.jobs import Unit


class WordsLoader:
    """Stands for `hydra.core.config_loader.ConfigLoader`; launchers call this one method of it."""

    def load_sweep_config(self, master_config: "DictConfig", sweep_overrides: list[str]) -> "DictConfig":
        """The master's section `hydra`, with the job's folder and words in it: first the folder, then the words."""
        from omegaconf import OmegaConf, open_dict

        subdir, *words = sweep_overrides
        config = OmegaConf.create({"hydra": copy.deepcopy(master_config.hydra)})
        with open_dict(config):
            config.hydra.sweep.subdir = subdir
            config.hydra.overrides.task = [escaped(word) for word in words]
        return config


def handed(unit: "Unit") -> list[str]:
    """What a launcher gets for a unit."""
    return [unit.subdir, *unit.words]


def escaped(word: str) -> str:
    """A word that OmegaConf would take for an interpolation comes through as it is."""
    return word.replace("${", "\\${")


def words_of(hydra: Any) -> list[str]:
    """The words of the job, from Hydra's own section of its configuration."""
    return [str(word) for word in hydra.overrides.task]
