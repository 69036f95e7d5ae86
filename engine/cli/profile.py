"""`engine profile`: measure step times over a grid of batches; write a table that a latency model is fitted to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.cli.main import ROOT
from engine.cli.status import status_line
from engine.cli.words import torch_or_explain, users_mistakes
from twin.cli import signals, streams
from twin.cli.compose import Composed, compose
from twin.cli.errors import UserError, naming
from twin.cli.helptext import help_text, wants_help
from twin.cli.options import check_options, is_number
from twin.cli.quoting import key_of
from twin.nearest import nearest

if TYPE_CHECKING:
    from engine.build import Loaded
    from engine.profile.measure import Measuring, Profile
    from engine.profile.table import Columns
    from engine.runner import ModelRunner
    from twin.core.limits import Limits

DOES = """Measures the engine's own steps over a grid of batches (decodes, parts of prompts, both, swaps, sizes at the edges
of blocks and tiles), as many points as the time allows; writes a table with every repeat (docs/profile.md).

options of its own
  profile.to=FILE         .parquet or .csv, several with commas between; default: profile.parquet in the run folder
  profile.budget_s=60     seconds of measuring
  profile.repeats=5       of each point, interleaved
  profile.strict=false    true: exit status 1 if any row is contaminated"""
EXAMPLE = "python -m engine profile model=smollm2-135m engine.threads=1 profile.to=steps.parquet"
SECTIONS = ("model", "cache", "scheduler", "engine", "attention", "seed")
OWN = {"profile.to": "", "profile.budget_s": "60", "profile.repeats": "5", "profile.strict": "false"}
DONE, CONTAMINATED = 0, 1
TABLE = "profile.parquet"  # in the run folder
SWAP_BYTES = 256 << 20  # host memory for the swaps that are measured, where nothing is said


class Own(NamedTuple):
    """The command's own options."""

    to: list[Path]
    budget_s: float
    repeats: int
    strict: bool


def main(words: list[str]) -> int:
    """Measures and writes; returns the exit status."""
    own = [word for word in words if (key_of(word) or "").startswith("profile.")]
    rest = [word for word in words if word not in own]
    if wants_help(rest):
        print(help_text("profile", DOES, EXAMPLE, rest, SECTIONS, program="engine", root=ROOT), end="")
        return DONE
    torch_or_explain()
    options = own_options(own)
    composed = compose(rest, root=ROOT)
    with users_mistakes():
        return _profiled(composed, options, words)


def own_options(words: list[str]) -> Own:
    """Raises `UserError` for the first that is wrong. Files must have names and folders that can be written to."""
    given = dict(OWN)
    for word in words:
        key = str(key_of(word))
        if key not in OWN:
            raise UserError(f"{key}: no such option{nearest(key, OWN)}; there are {', '.join(OWN)}")
        given[key] = word.partition("=")[2]
    to = [Path(name) for name in given["profile.to"].split(",") if name]
    for path in to:
        if not path.parent.is_dir():
            raise UserError(f"profile.to={path}: there is no folder {path.parent}; make it, or name another")
    budget_s, repeats = _number(given, "profile.budget_s"), _number(given, "profile.repeats")
    if not 0 < budget_s <= 1e6:
        raise UserError(f"profile.budget_s={given['profile.budget_s']}: must be seconds, above 0 and at most 1,000,000")
    if repeats != int(repeats) or not 1 <= repeats <= 1000:
        raise UserError(f"profile.repeats={given['profile.repeats']}: must be an integer from 1 to 1000")
    if given["profile.strict"] not in ("true", "false"):
        raise UserError(f"profile.strict={given['profile.strict']}: must be true or false")
    return Own(to, budget_s, int(repeats), given["profile.strict"] == "true")


def _number(given: dict[str, str], name: str) -> float:
    try:
        value = float(given[name])
    except ValueError:
        value = float("nan")
    if not is_number(value):
        raise UserError(f"{name}={given[name]}: must be a number")
    return value


def _profiled(composed: Composed, options: Own, words: list[str]) -> int:
    from engine.build import load
    from engine.options import check_engine_options
    from engine.profile.contamination import load_reader
    from engine.profile.measure import Measuring, Options
    from engine.profile.stepper import Stepper
    from engine.profile.table import check_names
    from twin.cli.folder import claim, release

    config = composed.values
    check_options(config)
    check_engine_options(config)
    check_names(options.to)
    loaded = load(config)
    limits = limits_of(config, loaded)
    runner = loaded.runner(limits)
    folder = None if options.to else claim(composed.run_dir, composed.given("hydra.run.dir"))
    paths = options.to if folder is None else [folder / TABLE]
    with streams.work_first():
        for note in loaded.notes:
            print(f"note: {note}")
        stepper = Stepper(runner, limits, config["seed"])
        asked = Options(options.budget_s, options.repeats, config["seed"])
        with status_line() as tell:
            measuring = Measuring(limits, stepper.measure, load_reader(runner.device), asked, tell=tell)
            try:
                with signals.held():
                    interrupted = _measured(measuring)
                    about = _about(measuring.profile, runner, limits, config, words)
                    table = _written(measuring.profile, paths, about)
            except BaseException:
                if folder is not None:
                    release([folder])
                raise
        _show(measuring.profile, table, paths)
    if interrupted:
        streams.complain(f"engine profile: {signals.in_words()}; what was measured until then is saved")
        return signals.exit_status()
    return CONTAMINATED if options.strict and any(table["contaminated"]) else DONE


def limits_of(config: dict[str, Any], loaded: Loaded) -> Limits:
    """What the options say, the pools filled in where they say nothing."""
    from twin.cli.machine import machine
    from twin.core.limits import Limits

    cache, scheduler = config["cache"], config["scheduler"]
    if cache["num_gpu_blocks"] is None:
        cache["num_gpu_blocks"], _ = loaded.blocks_that_fit(config)
    if cache["num_cpu_blocks"] is None:
        cache["num_cpu_blocks"] = min(cache["num_gpu_blocks"] // 2, SWAP_BYTES // loaded.block_bytes(cache["block_size"]))
    with naming("scheduler"):
        return Limits(
            num_blocks=cache["num_gpu_blocks"],
            block_size=cache["block_size"],
            num_host_blocks=cache["num_cpu_blocks"],
            max_num_seqs=scheduler["max_num_seqs"],
            max_num_batched_tokens=scheduler["max_num_batched_tokens"],
            max_model_len=machine(config).max_model_len,
            enable_chunked_prefill=scheduler["enable_chunked_prefill"],
        )


def _measured(measuring: Measuring) -> bool:
    """Measures, until it is done or interrupted; whether it was. Raises KeyboardInterrupt if there is nothing to save."""
    try:
        with signals.heeded():
            measuring.run()
    except KeyboardInterrupt:
        measuring.stop()
        if not measuring.profile.rows:
            raise
        return True
    return False


def _about(
    profile: Profile, runner: ModelRunner, limits: Limits, config: dict[str, Any], words: list[str]
) -> dict[str, Any]:
    from engine.profile.environment import environment
    from engine.profile.report import contamination
    from twin.cli.job import command_line

    assert profile.selection is not None
    return {
        "command": command_line("profile", words, "engine"),
        "complete": profile.complete,
        **environment(runner, limits),
        "engine": dict(config["engine"]),
        "seed": config["seed"],
        "points": len(profile.selection.points),
        "points_of_the_grid": profile.selection.planned,
        "contamination": contamination(profile),
        "notes": profile.notes,
    }


def _written(profile: Profile, paths: list[Path], about: dict[str, Any]) -> Columns:
    from engine.profile.table import columns, write
    from twin.results.atomic import OutputError

    table = columns(profile)
    for path in paths:
        try:
            write(path, table, about)
        except OutputError as error:
            raise UserError(f"profile.to={path}: {error}") from error
    return table


def _show(profile: Profile, table: Columns, paths: list[Path]) -> None:
    from rich.console import Console
    from rich.table import Table

    from engine.profile.report import by_kind, contamination, summary_line

    shown = Table(box=None, padding=(0, 1), pad_edge=False)
    for heading in ("steps", "rows", "least ms", "median ms", "most ms"):
        shown.add_column(heading, justify="left" if heading == "steps" else "right")
    for name, rows, *seconds in by_kind(table):
        shown.add_row(name, str(rows), *(f"{1e3 * each:.3g}" for each in seconds))
    Console(highlight=False).print(shown)
    for note in profile.notes:
        print(f"note: {note}")
    print(summary_line(contamination(profile)))
    print(f"written to {', '.join(map(str, paths))}", flush=True)
