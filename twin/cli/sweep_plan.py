"""From the grid to the plan of a sweep: every point composed, its folder named, what it depends on hashed."""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from twin import __version__, policies_registry, predictors_registry
from twin.cli.compose import Composed, compose
from twin.cli.errors import UserError, naming
from twin.cli.groups import flat
from twin.cli.job import build
from twin.cli.options import check_options
from twin.cli.quoting import key_of
from twin.cli.sweep_axes import Axis, Point
from twin.cli.sweep_names import folder_names
from twin.policy_assembly import names_part, parse
from twin.policy_parts import ROLES
from twin.sweep.jobs import Job, Plan, Unit
from twin.sweep.ledger import FileHashes, digest


def make_plan(folder: Path, found: Sequence[Axis], points: Sequence[Point]) -> tuple[Plan, list[Composed]]:
    """The plan, and each point's configuration. Raises `UserError` for the first that cannot be composed."""
    swept = tuple(axis.option for axis in found if axis.swept)
    hashes = FileHashes()
    jobs, configurations = [], []
    for point, name in zip(points, folder_names([point.settings for point in points]), strict=True):
        composed = compose(list(point.words))
        check_options(composed.values)
        settings = {option: _value(composed, option, text) for option, text in point.settings.items()}
        units = _units(folder, name, point.words, composed, hashes)
        jobs.append(Job(name, folder / name, settings, units, composed.values["seeds"]))
        configurations.append(composed)
    return Plan(folder, swept, jobs), configurations


def check(found: Sequence[Axis], points: Sequence[Point], plan: Plan, configurations: Sequence[Composed]) -> list[str]:
    """Builds a job for every value of every axis but seeds, so that a bad value is told before anything runs.

    Raises `UserError`. Which combinations of good values cannot be is found out job by job. The lines are those that
    `twin run` prints of the first job.
    """
    seen: set[tuple[str, str]] = set()
    lines: list[str] = []
    for point, job, composed in zip(points, plan.jobs, configurations, strict=True):
        here = {(option, value) for option, value in point.settings.items() if option not in ("seed", "seeds")}
        if lines and here <= seen:
            continue
        seen |= here
        values = deepcopy(composed.values) | {"seeds": 1}
        try:
            built = build(Composed(values, composed.run_dir, composed.choices, composed.overrides), "")
        except UserError as error:
            where = f" (job {job.name})" if len(plan.jobs) > 1 else ""
            raise UserError(f"{error}{where}") from error
        lines = lines or built.lines
    return [line for line in lines if not line.startswith("note: ")]


def _units(folder: Path, name: str, words: tuple[str, ...], composed: Composed, hashes: FileHashes) -> tuple[Unit, ...]:
    """A unit a seed; of several seeds each has a folder below the job's, as with `twin run seeds=N`."""
    values = composed.values
    first, count = values["seed"], values["seeds"]
    others = _depends_on(values, hashes)
    units = []
    for seed in range(first, first + count):
        sha256 = digest(values | {"seed": seed, "seeds": 1}, others)
        if count == 1:
            units.append(Unit(folder / name, name, words, sha256))
            continue
        rest = tuple(word for word in words if key_of(word) not in ("seed", "seeds"))
        units.append(Unit(folder / name / f"seed={seed}", f"{name}/seed={seed}", (*rest, f"seed={seed}"), sha256))
    return tuple(units)


def _depends_on(values: dict[str, Any], hashes: FileHashes) -> dict[str, str]:
    """What else decides a result, by hash: files that options name, those of policy, parts and predictor; the version."""
    paths = [Path(str(value)) for name, value in flat(values).items() if name.endswith("path") and value]
    return {"twin": __version__} | hashes.of(paths) | _code(values)


def _code(values: dict[str, Any]) -> dict[str, str]:
    policy, path = values["policy"], values["policy_path"]
    with naming("policy"):
        chosen = {"policy": policies_registry.find(policy["name"], path).sha256}
        for role in ROLES:
            if names_part(role, policy.get(role)):
                chosen[role] = policies_registry.find(parse(f"policy.{role}", policy[role])[0], path).sha256
    with naming("predictor"):
        chosen["predictor"] = predictors_registry.find(values["predictor"]["name"], path).sha256
    return chosen


def _value(composed: Composed, option: str, text: str) -> Any:
    """What the option is in the configuration, as a table may hold it."""
    if option in composed.choices:
        return composed.choices[option]
    known = flat(composed.values)
    value = known.get(option, known.get(f"{option}.name", text))
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
