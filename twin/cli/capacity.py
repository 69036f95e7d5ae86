"""`twin capacity`: the greatest arrival rate that meets service-level objectives, and the best setting for them."""

from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING

from twin.cli import signals, streams
from twin.cli.errors import UserError, one_line
from twin.cli.helptext import help_text, wants_help

if TYPE_CHECKING:
    from twin.capacity.space import Grid, OptunaSpace
    from twin.cli.capacity_study import Study

DOES = """Looks for the greatest arrival rate that meets the objectives of slo: simulates the trace at rates that close in on
it, each with several seeds, and says how sure the answer is (docs/capacity.md). With -m and lists of values it looks for
the best of the settings: their capacities, a table and a heat map."""
EXAMPLE = "python -m twin capacity policy=fcfs trace=chat slo.ttft_p99=1.5 slo.tpot_p99=0.05"
DONE, FAILED = 0, 1


def main(words: list[str]) -> int:
    """Composes, builds, claims the folder, searches, saves; returns the exit status."""
    from twin.cli.capacity_axes import MULTIRUN, axes_of

    if wants_help(words):
        print(
            help_text("capacity", DOES, EXAMPLE, [word for word in words if word not in MULTIRUN], root="capacity"), end=""
        )
        return DONE
    from twin.capacity.space import SpaceError, space
    from twin.cli.capacity_save import refuse_obstacles
    from twin.cli.capacity_show import print_start
    from twin.cli.capacity_study import study
    from twin.cli.folder import claim, release
    from twin.cli.job import command_line

    axes, plain = axes_of(words)
    made = study(plain, {axis.key: axis.first for axis in axes}, command_line("capacity", words))
    first = made.first
    try:
        settings = space(axes, first.values["capacity"]["trials"], first.values["seed"])
    except SpaceError as error:
        raise UserError(str(error)) from error
    folder = claim(first.run_dir, first.given("hydra.run.dir"))
    try:
        refuse_obstacles(folder)
        with streams.work_first():
            print_start(made, len(settings) if axes else 1)
            status, message = _searched(made, settings)
            return _saved(made, [axis.key for axis in axes], folder, status, message)
    finally:
        release([folder])  # goes if nothing is in it


def _searched(made: "Study", settings: "Grid | OptunaSpace") -> tuple[int, str]:
    """Every setting; whatever ends it early, what was found stays. The exit status, and what went wrong."""
    from twin.capacity.search import OutOfTime
    from twin.cli.capacity_show import print_cell, print_probe
    from twin.core.errors import PolicyError

    try:
        with made.prober.ready():
            for setting in settings.settings():
                cell = made.search(setting, None if setting else print_probe)
                settings.told(setting, cell.rate)
                if setting:
                    print_cell(cell)
        return DONE, ""
    except KeyboardInterrupt:
        return signals.exit_status(), signals.in_words()
    except OutOfTime:
        return FAILED, f"stopped after simulate.max_wall_s={made.first.values['simulate']['max_wall_s']:g} seconds"
    except PolicyError as error:
        return FAILED, one_line(str(error))
    except BrokenProcessPool:
        return FAILED, "a process that simulated was killed, for want of memory perhaps (capacity.jobs=1 takes least)"
    finally:
        made.keep()


def _saved(made: "Study", keys: list[str], folder: Path, status: int, message: str) -> int:
    from twin.cli.capacity_save import save
    from twin.cli.capacity_show import print_answer
    from twin.results.atomic import OutputError

    if not made.cells:
        if message and status == FAILED:
            streams.complain(f"twin capacity: {message}; nothing was measured until then")
            return status
        raise KeyboardInterrupt
    try:
        with signals.held():
            save(made, keys, folder, complete=not message)
    except OutputError as error:
        raise UserError(f"hydra.run.dir={folder}: {error}") from error
    met = print_answer(made)
    print(f"written to {folder}", flush=True)
    if message:
        streams.complain(f"twin capacity: {message}; what was found until then is saved")
    return status or (DONE if met else FAILED)
