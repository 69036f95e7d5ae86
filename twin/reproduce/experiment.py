"""The set-up of a published result: `conf/experiment/NAME.yaml`, with what the command line changes in it."""

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from twin.cli.errors import UserError, one_line
from twin.cli.groups import CONF
from twin.nearest import nearest

if TYPE_CHECKING:
    from twin.reproduce.result import Figure

FOLDER = CONF / "experiment"
TOO_LITTLE = "nothing of it can be measured with so few requests or so short a time; change less of the set-up"
NO_NUMBER = re.compile(r"\b(nan|inf)\b")
TEXTS = ("title", "source", "alike", "why")  # of every experiment: in words, and nothing to change
FIXED = (*TEXTS, "published")


class Experiment(NamedTuple):
    """A published result and how it is run again.

    `published`: the figures as they were printed. `options`: of `twin run`, the same for every simulation of it. `values`:
    what else the experiment goes by, numbers of requests and rates, say. All come from the file and may be changed by words.
    """

    name: str
    title: str
    source: str  # authors, venue and year, table or figure
    alike: str  # what counts as the same size, in words
    why: str  # where ours differs: what was found out about the reason; may be empty
    published: dict[str, Any]
    options: dict[str, Any]
    values: dict[str, Any]
    jobs: int | None = None  # processes side by side; None: as many as there are cores

    def figures(self) -> "list[Figure]":
        """Runs it. Raises UserError for an option that is wrong, PolicyError when a simulation fails."""
        import numpy as np

        try:
            with np.errstate(divide="raise", invalid="raise"):
                figures = list(import_module(f"twin.reproduce.{self.name}").run(self))
        except (ZeroDivisionError, FloatingPointError) as error:  # a ratio to nothing
            raise UserError(f"{self.name}: {TOO_LITTLE}") from error
        for figure in figures:
            if NO_NUMBER.search(figure.ours):
                raise UserError(f"{self.name}: {figure.what}: {TOO_LITTLE}")
        return figures


def names() -> list[str]:
    """What can be run again."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str, words: Sequence[str] = (), folder: Path = FOLDER) -> Experiment:
    """The experiment with the changes `KEY=VALUE`. Raises UserError, which names what there is."""
    from omegaconf import OmegaConf

    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        raise UserError(f"unknown result {name!r}{nearest(name, known)}; known are {', '.join(known)}")
    content: Any = OmegaConf.to_container(OmegaConf.load(folder / f"{name}.yaml"))
    for word in words:
        _change(content, word)
    texts = {key: " ".join(str(content.pop(key, "")).split()) for key in TEXTS}
    published, options, jobs = content.pop("published"), content.pop("options", {}), content.pop("jobs", None)
    if jobs is not None and (not isinstance(jobs, int) or isinstance(jobs, bool) or not 1 <= jobs <= 1024):
        raise UserError(f"jobs: {jobs!r} is no number of processes from 1 to 1024")
    return Experiment(name, **texts, published=published, options=options, values=content, jobs=jobs)


def _change(content: dict[str, Any], word: str) -> None:
    """`requests=500`, `options.gpu=h100`, `rates=[2,4]`: a key that is there, by a value of its kind; or an option."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    key, equals, text = word.partition("=")
    if not equals or not key:
        raise UserError(f"{word}: changes are written key=value")
    if key in FIXED or key.startswith("published."):
        raise UserError(f"{key}: is what was published or said of it, and is not to be changed")
    try:
        value: Any = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={text}"]))
    except (OmegaConfBaseException, YAMLError) as error:
        raise UserError(f"{key}: {one_line(str(error))}") from error
    value = value["value"]
    section, dot, option = key.partition(".")
    if section == "options" and dot and option:
        content.setdefault("options", {})[option] = value  # what is wrong with it the run will say
        return
    if key == "jobs":
        content[key] = value
        return
    there = [name for name in content if name not in (*FIXED, "options", "jobs")]
    if key not in there:
        ways = ", ".join([*there, "jobs", "options.NAME"])
        raise UserError(f"{key}: unknown{nearest(key, there)}; what can be changed: {ways}")
    if not _same_kind(value, content[key]):
        raise UserError(f"{key}: {one_line(text)} is of another kind than {content[key]!r}")
    content[key] = value


def _same_kind(value: Any, before: Any) -> bool:
    """Numbers for numbers (positive where they were), text for text, lists for lists of the same kind; mappings keep their
    keys, and the lists in them their lengths."""
    if isinstance(before, bool) or isinstance(value, bool):
        return isinstance(before, bool) and isinstance(value, bool)
    if isinstance(before, int):
        return isinstance(value, int) and (value > 0 or before <= 0)
    if isinstance(before, float):
        return isinstance(value, int | float) and 0 < value < float("inf")
    if isinstance(before, list):
        return isinstance(value, list) and bool(value) and all(_same_kind(each, before[0]) for each in value)
    if isinstance(before, Mapping):
        return (
            isinstance(value, Mapping)
            and value.keys() == before.keys()
            and all(
                _same_kind(value[key], old) and (not isinstance(old, list) or len(value[key]) == len(old))
                for key, old in before.items()
            )
        )
    return isinstance(value, type(before))
