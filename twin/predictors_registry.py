"""Finds a predictor by name: one file, one class, as with policies.

Looked into, in this order: `predictors/` of the working directory, `predictors/` in the folder `policy_path`, those that
come with the package, and entry points of the group `twin.predictors`. Nothing is registered by hand, and no file but the
one asked for is imported.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.class_file import check_docstring, constructor_at, from_entry_point, from_file, line_of
from twin.nearest import nearest
from twin.policy_code import said, their_code
from twin.policy_declarations import takes
from twin.policy_parameters import Parameter, PolicyFileError, parameters_of, resolved
from twin.policy_sources import misnamed
from twin.predictor import Predictor

BUILT_IN = Path(__file__).resolve().parent / "predictors"
ENTRY_POINTS = "twin.predictors"
RESERVED = ("name",)  # options that are not the predictor's own
HOOKS = {"prepare": "output_tokens", "predict": "request, output_tokens", "predict_all": "request_ids, output_tokens"}
HOOKS |= {"on_finish": "request, generated_tokens"}


@dataclass(frozen=True)
class PredictorFile:
    """A predictor that was found: the class, where it is, and what its constructor takes."""

    name: str
    predictor: type[Predictor]
    file: Path
    sha256: str
    parameters: tuple[Parameter, ...]

    def shadowed(self, policy_path: str | Path | None = None) -> list[str]:
        """Which other files of the same name are not used, a line each."""
        files = [file for folder in folders(policy_path) if (file := folder / f"{self.name}.py").is_file()]
        others = [file for file in files if file.resolve() != self.file.resolve()]
        return [f"predictor={self.name}: {self.file} is used, not {file}" for file in others]

    def provenance(self) -> dict[str, str]:
        """Who predicts, for the results: class, file, hash, what it says of itself."""
        return {
            "class": self.predictor.__name__,
            "file": str(self.file),
            "sha256": self.sha256,
            "description": (self.predictor.__doc__ or "").strip().partition("\n")[0],
        }

    def build(self, given: dict[str, Any], seed: int = 0) -> tuple[Predictor, dict[str, Any]]:
        """The predictor made with these parameters, and all parameters with the defaults filled in.

        Raises `PolicyFileError` for an unknown parameter, a value of another type, what the constructor refuses or raises,
        and for a hook or declaration that is none.
        """
        values = resolved(self.name, self.parameters, given, "predictor")
        with their_code(self.file, "in the constructor"):
            try:
                predictor = self.predictor(**values)
            except ValueError as error:  # the constructor refuses a value, in its own words
                raise PolicyFileError(f"predictor={self.name}: {said(error)}") from error
            predictor.seed = seed
            _check_declarations(predictor, f"{self.file}:{line_of(self.predictor)}")
        return predictor, values


def find(name: str, policy_path: str | Path | None = None) -> PredictorFile:
    """The predictor of that name; raises `PolicyFileError` (one line, with file and line) when it cannot be had."""
    places = folders(policy_path)
    for folder in places:
        if (file := folder / f"{name}.py").is_file():
            if not name.isidentifier():
                raise PolicyFileError(f"predictor={name}: {file}: {misnamed(file, 'predictor')}")
            return _from_file(name, file)
    points = _entry_points(name)
    if len(points) > 1:
        raise PolicyFileError(f"predictor={name}: two packages have it: {' and '.join(map(_of, points))}; uninstall one")
    if points:
        return _from_entry_point(name, points[0])
    known = names(policy_path)
    raise PolicyFileError(f"predictor={name}: no such predictor{nearest(name, known)} (predictors: {', '.join(known)})")


def folders(policy_path: str | Path | None = None) -> list[Path]:
    """Where files are looked for, first one first."""
    given = [] if policy_path is None else [Path(policy_path).absolute() / "predictors"]
    return [Path.cwd() / "predictors", *given, BUILT_IN]


def names(policy_path: str | Path | None = None) -> list[str]:
    """All names that can be asked for, sorted; nothing is imported."""
    files = {file.stem for folder in folders(policy_path) for file in folder.glob("[!_]*.py") if file.is_file()}
    return sorted({name for name in files if name.isidentifier()} | {point.name for point in _entry_points()})


def _from_file(name: str, file: Path) -> PredictorFile:
    package = "twin.predictors" if file.parent == BUILT_IN else None
    predictor, sha256 = from_file(file, name, package, Predictor, "predictor")
    return _checked(name, predictor, file, sha256)


def _from_entry_point(name: str, point: Any) -> PredictorFile:
    return _checked(name, *from_entry_point(point, f"predictor={name}: {_of(point)}", Predictor))


def _checked(name: str, predictor: type[Predictor], file: Path, sha256: str) -> PredictorFile:
    check_docstring(predictor, file)
    where = constructor_at(predictor, file)
    return PredictorFile(name, predictor, file, sha256, parameters_of(predictor, where, RESERVED))


def _check_declarations(predictor: Predictor, where: str) -> None:
    """Raises `PolicyFileError` for a method or declaration that is none."""
    named = f"{where}: {type(predictor).__name__}"
    if type(predictor).predict is Predictor.predict and "predict" not in vars(predictor):
        raise PolicyFileError(f"{named} has no method predict(self, request, output_tokens)")
    for name, arguments in HOOKS.items():
        hook = getattr(predictor, name)
        if hook is None and name == "on_finish":
            continue
        if not callable(hook):
            raise PolicyFileError(f"{named}.{name}={said(hook)}: must be a method {name}(self, {arguments})")
        if not takes(hook, arguments.count(",") + 1):
            raise PolicyFileError(f"{named}.{name}: takes other arguments; it is called as {name}({arguments})")
    for name in ("needs_length", "predicts"):
        if type(value := getattr(predictor, name)) is not bool:
            raise PolicyFileError(f"{named}.{name}={said(value)}: must be True or False")


def _entry_points(name: str | None = None) -> list[Any]:
    from importlib.metadata import entry_points  # as much as all else here takes, and a file need not pay it

    return list(entry_points(group=ENTRY_POINTS) if name is None else entry_points(group=ENTRY_POINTS, name=name))


def _of(point: Any) -> str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"entry point {point.value}{package}"
