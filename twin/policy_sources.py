"""Where policies are: files in folders, and entry points of installed packages. Nothing is imported here.

Looked into, in this order: `policies/` of the working directory, the folder `policy_path`, the policies that come with
the package, and entry points of the group `twin.policies`. The first that has a name wins; the others are shadowed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.nearest import nearest
from twin.policy_parameters import PolicyFileError

BUILT_IN = Path(__file__).resolve().parents[1] / "policies"
ENTRY_POINTS = "twin.policies"


class UnknownPolicy(PolicyFileError):
    """No file and no entry point has the name."""


@dataclass(frozen=True)
class Source:
    """One place that has a policy of a name: a file, or an entry point of an installed package."""

    name: str
    file: Path | None
    point: Any = None  # importlib.metadata.EntryPoint

    @property
    def built_in(self) -> bool:
        """Whether it comes with this package."""
        return self.file is not None and self.file.parent == BUILT_IN

    def __str__(self) -> str:
        if self.file is not None:
            return str(self.file)
        package = f" of {self.point.dist.name}" if self.point.dist is not None else ""
        return f"entry point {self.point.value}{package}"


def folders(policy_path: str | Path | None = None) -> list[Path]:
    """Where files are looked for, first one first, each once."""
    given = [] if policy_path is None else [Path(policy_path).absolute()]
    for folder in given:
        if not folder.is_dir():
            raise PolicyFileError(f"policy_path={policy_path}: no such folder")
    found: dict[Path, Path] = {}  # by what it is, however it is called
    for folder in (Path.cwd() / "policies", *given, BUILT_IN):
        found.setdefault(folder.resolve(), BUILT_IN if folder.resolve() == BUILT_IN else folder)
    return list(found.values())


def source(name: str, policy_path: str | Path | None = None) -> Source:
    """The first place that has the name; raises `PolicyFileError` when none has it, or two packages have it alike."""
    places = folders(policy_path)
    if not name.isidentifier():
        for folder in places:
            if (file := folder / f"{name}.py").is_file():
                raise UnknownPolicy(f"policy={name}: {file}: {misnamed(file)}")
        raise UnknownPolicy(f"policy={name}: a policy's name is the name of its file without .py{_known(policy_path)}")
    for folder in places:
        if (file := folder / f"{name}.py").is_file():
            return Source(name, file)
    points = _entry_points(name)
    if len(points) > 1:
        raise PolicyFileError(f"policy={name}: two packages have it: {' and '.join(map(str, points))}; uninstall one")
    if points:
        return points[0]
    for folder in places:
        if (folder / f"{name}.py").is_dir():
            raise UnknownPolicy(f"policy={name}: {folder / f'{name}.py'} is a folder; a policy is one file")
    raise UnknownPolicy(f"policy={name}: no such policy{nearest(name, names(policy_path))}{_known(policy_path)}")


def shadowed(chosen: Source, policy_path: str | Path | None = None) -> list[Source]:
    """The other places that have a policy of the same name, and are not asked."""
    files = [Source(chosen.name, folder / f"{chosen.name}.py") for folder in folders(policy_path)]
    found = [place for place in files if place.file is not None and place.file.is_file()] + _entry_points(chosen.name)
    return [place for place in found if place != chosen]


def names(policy_path: str | Path | None = None) -> list[str]:
    """All names that can be asked for, sorted."""
    files = {file.stem for file in files_in(policy_path) if file.stem.isidentifier()}
    return sorted(files | {place.name for place in _entry_points()})


def files_in(policy_path: str | Path | None = None) -> list[Path]:
    """All files that are meant as policies: those of the first folder first, each folder sorted."""
    return [file for folder in folders(policy_path) for file in sorted(folder.glob("[!_]*.py")) if file.is_file()]


def misnamed(file: Path, noun: str = "policy") -> str:
    """What to do with a file whose name can be no policy's (or predictor's)."""
    letters = "".join(letter if letter.isalnum() else "_" for letter in file.stem)
    better = letters if letters.isidentifier() else f"{noun}_{letters}"
    return f"a {noun}'s name is of letters, digits and _; rename the file to {better}.py"


def _entry_points(name: str | None = None) -> list[Source]:
    from importlib.metadata import entry_points  # as much as all else here takes, and a file need not pay it

    points = entry_points(group=ENTRY_POINTS) if name is None else entry_points(group=ENTRY_POINTS, name=name)
    return [Source(point.name, None, point) for point in points]


def _known(policy_path: str | Path | None) -> str:
    return f" (policies: {', '.join(names(policy_path))})"
