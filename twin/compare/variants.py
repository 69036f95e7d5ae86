"""What is compared: folders of runs, of several seeds, and of sweeps, as variants with a run a seed each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twin.results.folder import CONFIG, SUMMARY
from twin.results.load import Run, RunError, load_run
from twin.sweep.table import JOB, STATUS, SWEEP, read_table

SEED = "seed"


@dataclass
class Variant:
    """One setting of the options, run with one seed or several."""

    label: str
    path: Path
    settings: dict[str, Any] = field(default_factory=dict)  # what a sweep swept, without the seed
    runs: dict[int, Run] = field(default_factory=dict)  # by seed
    folders: dict[int, Path] = field(default_factory=dict)  # where each lies

    def first(self) -> Run:
        """The run of the smallest seed."""
        return self.runs[min(self.runs)]


def read_variants(paths: Sequence[Path]) -> tuple[list[Variant], list[str]]:
    """The variants of all folders, each with a label of its own, and notes on what was left out. Raises RunError."""
    notes: list[str] = []
    variants: list[Variant] = []
    for path in paths:
        variants += _read(path, notes)
    if not variants:
        raise RunError(f"{', '.join(map(str, paths))}: no run that has finished")
    return _labelled(variants), notes


def _read(path: Path, notes: list[str]) -> list[Variant]:
    if (path / SWEEP).is_file():
        return _sweep(path, notes)
    if (path / CONFIG).is_file() or not path.is_dir():
        run = load_run(path)
        return [_alone(path, {}, {path: run}, notes)]
    if folders := _seeds(path):
        return [_alone(path, {}, {folder: load_run(folder) for folder in folders}, notes)]
    if any((path / name).exists() for name in ("policies", "job.json")) or not (path / SUMMARY).exists():
        raise RunError(f"{path} is the folder of no run and of no sweep: {CONFIG}, {SWEEP} and seed=... are missing")
    raise RunError(f"{path} is not the folder of a run: {CONFIG} is missing")


def _sweep(path: Path, notes: list[str]) -> list[Variant]:
    """A variant for each point of the grid but the seed."""
    try:
        swept, rows = read_table(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path / SWEEP}: {str(error).splitlines()[0]}") from error
    done = [row for row in rows if row[STATUS] == "finished"]
    if len(done) < len(rows):
        notes.append(f"{path}: {len(rows) - len(done)} of {len(rows)} jobs failed and are left out")
    together: dict[tuple[Any, ...], Variant] = {}
    for row in done:
        settings = {name: row[name] for name in swept if name != SEED}
        folder = path / row[JOB]
        repeated = row.get("seeds")  # of a job of several seeds; an earlier start may have left more, or fewer
        folders = _seeds(folder)[: int(repeated)] if repeated else [folder]
        found = _alone(folder, settings, {each: load_run(each) for each in folders}, notes)
        there = together.setdefault(tuple(settings.values()), found)
        if there is not found:
            there.runs |= found.runs
            there.folders |= found.folders
    return list(together.values())


def _seeds(path: Path) -> list[Path]:
    """The folders of the seeds of `twin run seeds=N`, in order."""
    named = [(folder.name.removeprefix("seed="), folder) for folder in path.glob("seed=*")]
    return [folder for seed, folder in sorted((int(seed), folder) for seed, folder in named if seed.isdigit())]


def _alone(path: Path, settings: dict[str, Any], runs: Mapping[Path, Run], notes: list[str]) -> Variant:
    made = Variant("", path, settings)
    for folder, run in runs.items():
        seed = run.config.get(SEED)
        if not isinstance(seed, int):
            raise RunError(f"{folder / CONFIG}: seed is missing")
        made.runs[seed], made.folders[seed] = run, folder
        if run.summary.get("complete") is False:
            notes.append(f"{folder}: the run was interrupted; it speaks of what was done until then")
    return made


def _labelled(variants: list[Variant]) -> list[Variant]:
    """What tells the variants apart: what is swept, else the policies, else folders, else paths."""
    for candidates in _labels(variants):
        if len(set(candidates)) == len(candidates):
            break
    for variant, label in zip(variants, candidates, strict=True):
        variant.label = label
    return variants


def _labels(variants: Sequence[Variant]) -> Iterator[list[str]]:
    if all(variant.settings for variant in variants):
        yield [setting_words(variant.settings) for variant in variants]
    yield [str((variant.first().config.get("policy") or {}).get("name")) for variant in variants]
    yield [variant.path.name for variant in variants]
    yield [str(variant.path) for variant in variants]
    yield [f"{number}: {variant.path}" for number, variant in enumerate(variants, 1)]


def setting_words(settings: Mapping[str, Any]) -> str:
    """Settings in a line; of the policy its name alone."""
    return ", ".join(str(value) if name == "policy" else f"{name}={value}" for name, value in settings.items())
