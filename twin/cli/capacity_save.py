"""The folder of a search for the capacity."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.capacity import files
from twin.cli.capacity_probe import warmup

if TYPE_CHECKING:
    from twin.capacity.files import Cell
    from twin.cli.capacity_study import Study


PICTURES = ("figures/capacity.png", "figures/heat_map.png")


def refuse_obstacles(folder: Path) -> None:
    """Raises OutputError where a folder lies in the place of a file of a search: before it, not after."""
    from twin.results.atomic import OutputError

    for name in (files.CAPACITY, files.PROBES, files.SETTINGS, *PICTURES):
        if (folder / name).is_dir():
            raise OutputError(f"cannot write {folder / name}: a folder of that name is in the way")


def save(made: "Study", keys: list[str], folder: Path, complete: bool) -> None:
    """config.yaml, probes.csv, settings.csv, the figures, and capacity.json last. All or none; what an earlier search left
    beside goes. Raises OutputError."""
    from twin.results.folder import RunFolder

    best = shown_cell(made)
    for old in (files.SETTINGS, *PICTURES):
        (folder / old).unlink(missing_ok=True)
    with RunFolder(folder) as run:
        run.config(made.job.config_with_provenance([]))
        run.text(files.PROBES, files.csv_text(list(files.probe_rows(made.cells))))
        if made.several:
            run.text(files.SETTINGS, files.csv_text(list(files.setting_rows(made.cells))))
        if made.first.values["output"]["figures"]:
            for name, figure in _figures(made, keys, best).items():
                with run.writing(name) as handle:
                    from twin.results.style import save_png

                    save_png(figure, handle)
        if best.answer is not None:
            about = about_measuring(made) | {"seeds": len(best.answer.probes[0].samples)}
            about |= {"setting": dict(best.setting)} if best.setting else {}
            about |= {"command": made.command, "run": run_command(made, best)}
            run.text(files.CAPACITY, files.json_text(files.summary(best.answer, made.objectives, about, complete)))


def shown_cell(made: "Study") -> "Cell":
    """The best cell; where no setting meets the objectives, the one that was tried first."""
    tried = [cell for cell in made.cells if cell.answer is not None]
    return files.best_of(made.cells) or tried[0]


def about_measuring(made: "Study") -> dict[str, Any]:
    """How the rates were measured, flat."""
    values = made.first.values
    seconds, requests = warmup(made.first, len(made.job.trace))
    return {
        "first_seed": values["seed"],
        "requests": len(made.job.trace),
        "warmup_s": seconds,
        "warmup_requests": requests,
        "tolerance": values["capacity"]["tolerance"],
        "confidence": values["capacity"]["confidence"],
        "steady": values["capacity"]["steady"],
    }


def run_command(made: "Study", best: "Cell") -> str | None:
    """The command that plays the trace at the capacity that was found."""
    from twin.cli.job import command_line
    from twin.cli.quoting import key_of

    if not best.rate:
        return None
    passed_over = ("capacity", "slo", "trace.rate", "seeds", "hydra", "trace.num_requests", "warmup_", "simulate.max_wall_s")
    words = [word for word in made.words if not key_of(word).startswith(passed_over)]
    seconds, requests = warmup(made.first, len(made.job.trace))
    left_out = [f"warmup_requests={requests}"] if requests else [f"warmup_s={seconds}"] if seconds else []
    count = made.first.values["trace"]["num_requests"]
    measured = [f"trace.num_requests={count}"] if count else []
    setting = [f"{key}={value}" for key, value in best.setting.items()]
    seeds = f"seeds={made.first.values['seeds']}"
    return command_line("run", [*words, *setting, f"trace.rate={best.rate!r}", *measured, *left_out, seeds])


def _figures(made: "Study", keys: list[str], best: "Cell") -> dict[str, Any]:
    from twin.capacity.figure import heat_map, rates_figure

    setting = ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in best.setting.items())
    found = {PICTURES[0]: rates_figure(best.answer, setting)} if best.answer else {}
    return found | ({PICTURES[1]: heat_map(made.cells, keys)} if keys else {})
