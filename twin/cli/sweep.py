"""`twin run -m`: a grid of runs by one of Hydra's launchers; sweep.parquet over all of them, and what went wrong.

Each job is what `twin run` of the same words would leave. A second start with the same hydra.sweep.dir runs what has not
finished, or is another configuration by now.
"""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.cli import signals, streams
from twin.cli.errors import UserError, naming, one_line
from twin.cli.run import DONE, FAILED, SWEEP

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from twin.sweep.jobs import Plan, Unit
    from twin.sweep.launch import Launch

OURS = ("hydra/job_logging=disabled", "hydra/hydra_logging=disabled", "hydra.output_subdir=null")
INSTALL = "pip install 'twin-serving[sweep]'"
REFUSED = {
    "hydra.run.dir": "is a single run's; a sweep has hydra.sweep.dir=FOLDER, and its jobs have folders below",
    "hydra.sweep.subdir": "the folders of the jobs are named after what is swept",
    "hydra/sweeper": "sweeps are grids; the search for a rate or a setting is another command",
}


def run_sweep(words: Sequence[str]) -> int:
    """Plans, checks, runs what is missing, writes the table; returns the exit status."""
    from twin.cli.folder import claim, release
    from twin.cli.quoting import key_of
    from twin.cli.sweep_axes import axes, grid
    from twin.cli.sweep_job import task
    from twin.cli.sweep_plan import check, make_plan
    from twin.sweep.launch import launcher
    from twin.sweep.lock import TakenError, alone

    rest = [word for word in words if word not in SWEEP]
    hydras = [word for word in rest if key_of(word).lstrip("+").startswith(("hydra.", "hydra/"))]
    found, others = axes([word for word in rest if word not in hydras])
    points = grid(found, others)
    config = _hydra(hydras, len(points))
    folder = Path(str(config.hydra.sweep.dir))
    plan, configurations = make_plan(folder, found, points)
    lines = check(found, points, plan, configurations)
    with naming("hydra/launcher"):
        launch = launcher(config, folder, task)
    folder = claim(folder, any(key_of(word) == "hydra.sweep.dir" for word in hydras), "hydra.sweep.dir")
    if folder != plan.folder:  # another sweep has begun in the same second
        plan, _ = make_plan(folder, found, points)
        launch = launcher(config, folder, task)
    page = any(made.values["output"]["report"] for made in configurations)
    try:
        with ExitStack() as stack:
            with naming(f"hydra.sweep.dir={folder}"):
                stack.enter_context(alone(folder))
            lines.append(_told(plan, missing := plan.missing(), config))
            return _carried_out(plan, missing, launch, lines, page)
    except TakenError as error:
        raise UserError(f"hydra.sweep.dir={folder}: {error}") from error
    finally:
        release([folder])  # goes if nothing is in it


def _carried_out(plan: "Plan", missing: "list[Unit]", launch: "Launch", lines: Sequence[str], page: bool) -> int:
    """Runs what is missing, and says what came of all; returns the exit status. `page`: whether report.html is wanted."""
    from twin.sweep.launch import LostError, carry_through

    with streams.work_first():
        print("\n".join(lines), flush=True)
        status, why = DONE, ""
        try:
            _prepare(plan, missing)
            if missing:
                with _watch(missing), naming("hydra/launcher"):
                    carry_through(launch, missing)
        except KeyboardInterrupt:
            status, why = signals.exit_status(), signals.in_words()
        except LostError as error:
            status, why = FAILED, one_line(str(error))
        except UserError:
            _undo(plan, missing)
            raise
        return _finish(plan, status, why, page)


def _hydra(words: list[str], jobs: int) -> "DictConfig":
    """Hydra's own section, composed for a multirun; several cores run several jobs unless a launcher was chosen."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from hydra.types import RunMode
    from omegaconf.errors import OmegaConfBaseException

    from twin.cli.complaints import explained, refuse_odd
    from twin.cli.groups import CONF, ROOT
    from twin.cli.quoting import key_of

    for word in words:
        refuse_odd(word, word)
        if (why := REFUSED.get(key_of(word).lstrip("+"))) is not None:
            raise UserError(f"{word}: {why}")
    chosen = any(key_of(word) == "hydra/launcher" for word in words)
    several = [] if chosen or not _in_parallel(jobs) else ["hydra/launcher=joblib"]
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF), job_name="twin"):
        try:
            config = (
                GlobalHydra.instance()
                .config_loader()
                .load_configuration(config_name=ROOT, overrides=[*OURS, *several, *words], run_mode=RunMode.MULTIRUN)
            )
            _refuse_unread(config.hydra)
            return config
        except UserError:
            raise
        except (HydraException, OmegaConfBaseException, ValueError) as error:
            failure = error
    if (option := re.match(r"Could not override '([^']+)'", str(failure))) is not None:
        raise UserError(f"{option[1]}: the chosen launcher has no such option, nor has Hydra itself") from failure
    more = f"; the launchers of joblib and Slurm: {INSTALL}" if "hydra/launcher" in str(failure) else ""
    raise UserError(f"{explained(failure, words, ROOT)}{more}") from failure


def _refuse_unread(hydra: "DictConfig") -> None:
    """What Hydra would find out only when it uses it. Raises UserError, and OmegaConf's own."""
    from omegaconf import OmegaConf

    if not str(hydra.sweep.dir):
        raise UserError("hydra.sweep.dir: empty; give hydra.sweep.dir=FOLDER, or leave it out for one named after the time")
    if not OmegaConf.is_dict(hydra.launcher):
        raise UserError(f"hydra.launcher={hydra.launcher}: a launcher is chosen by hydra/launcher=NAME")
    OmegaConf.to_container(hydra.launcher, resolve=True)


def _in_parallel(jobs: int) -> bool:
    from importlib.util import find_spec

    if jobs == 1 or _cores() == 1:
        return False
    return find_spec("hydra_plugins") is not None and find_spec("hydra_plugins.hydra_joblib_launcher") is not None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _told(plan: "Plan", missing: "Sequence[Unit]", config: "DictConfig") -> str:
    units = sum(1 for _ in plan.units())
    runs = f"{units:,} runs of {len(plan.jobs):,} jobs" if units != len(plan.jobs) else f"{units:,} jobs"
    done = f", {units - len(missing):,} of them done before" if len(missing) < units else ""
    how = str(config.hydra.launcher["_target_"]).rpartition(".")[2].removesuffix("Launcher").lower()
    alone = how == "basic" and len(missing) > 1 and _cores() > 1
    hint = f"; one after the other, several at a time with {INSTALL}" if alone and not _in_parallel(2) else ""
    return f"sweep over {', '.join(plan.swept) or 'nothing'}: {runs}{done}; launcher {how}{hint}"


def _prepare(plan: "Plan", missing: "Sequence[Unit]") -> None:
    """job.json of every unit to be run; what an earlier attempt left half-written goes."""
    from twin.results.atomic import OutputError
    from twin.sweep import ledger

    for unit in missing:
        try:
            unit.folder.mkdir(parents=True, exist_ok=True)
            for old in (*unit.folder.glob(".*.part"), unit.folder / "summary.json"):
                old.unlink(missing_ok=True)
            ledger.write(unit.folder, ledger.Entry(unit.config_sha256, unit.words))
        except (OutputError, OSError) as error:
            raise UserError(f"hydra.sweep.dir={plan.folder}: {one_line(str(error))}") from error


def _undo(plan: "Plan", missing: "Sequence[Unit]") -> None:
    """Nothing could be begun: no folder that was made for it stays."""
    from twin.cli.folder import release
    from twin.sweep import ledger

    for unit in missing:
        if unit.status() == ledger.WAITING:
            (unit.folder / ledger.JOB).unlink(missing_ok=True)
            release([unit.folder.parent, unit.folder] if unit.folder.parent != plan.folder else [unit.folder])


def _watch(missing: "Sequence[Unit]") -> Any:
    from twin.sweep.watch import Watch

    stream = sys.stdout  # a job in this process takes the name for itself

    def tell(unit: "Unit", ended: int, total: int) -> None:
        failed = unit.reason()
        try:
            print(f"{ended}/{total} {unit.subdir}{f': failed: {failed}' if failed else ''}", file=stream, flush=True)
        except OSError:  # the reader has gone; the work goes on
            pass

    return Watch(missing, tell)


def _finish(plan: "Plan", status: int, why: str, page: bool) -> int:
    """The table, on disk and on the terminal, the page where it is wanted, and the exit status."""
    from twin.cli.sweep_results import collect, draw, show

    with signals.held():
        rows = collect(plan)
    if page and rows and status == DONE:
        try:
            draw(plan)
        except KeyboardInterrupt:
            status, why = signals.exit_status(), f"{signals.in_words()} while report.html was made; it is left out"
    show(plan, rows)
    failed = [row for row in rows if row["status"] == "failed"]
    if status != DONE:
        ended = f"all {len(rows):,} jobs have ended"
        if len(rows) < len(plan.jobs):
            again = f"the same command with hydra.sweep.dir={plan.folder} runs the rest"
            ended = f"{len(rows):,} of {len(plan.jobs):,} jobs have ended, {again}"
        streams.complain(f"twin run: {why}; {ended}")
        return status
    if failed:
        first = f"{failed[0]['job']}: {failed[0]['reason']}"
        more = f" (and {len(failed) - 1:,} more, see the column reason)" if len(failed) > 1 else ""
        streams.complain(f"twin run: {len(failed):,} of {len(plan.jobs):,} jobs failed: {first}{more}")
        return FAILED
    return DONE
