"""`twin reproduce`: a published result, theirs and ours, with a verdict."""

import json
import textwrap
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from twin.cli import signals, streams
from twin.cli.errors import UserError, one_line

if TYPE_CHECKING:
    from twin.reproduce.experiment import Experiment
    from twin.reproduce.result import Figure

HELP = """usage: python -m twin reproduce NAME [key=value ...] [--json]

Runs a published result again: prints the published figures, ours, and whether ours go the same way and are as large
(docs/reproductions.md). Its set-up is conf/experiment/NAME.yaml; key=value changes it: requests=4000, options.gpu=h100.
Without a NAME it lists what there is. Exit status 1 when a figure goes another way than published.

  jobs=N  processes side by side (as many as there are cores)
  --json  the figures for programs
"""
EXAMPLE = "example: python -m twin reproduce shared_prefix"
SAME, DIFFERS = 0, 1
WIDTH = 120


def main(words: list[str]) -> int:
    """Loads, simulates, prints; returns the exit status."""
    if "--help" in words or "-h" in words:
        print(f"{HELP}\n{_list()}\n{EXAMPLE}")
        return SAME
    as_json = "--json" in words
    plain = [word for word in words if word != "--json"]
    if flags := [word for word in plain if word.startswith("-")]:
        raise UserError(f"{flags[0]}: unknown flag; there are --json and --help")
    if not plain:
        print(_list())
        return SAME
    from twin.core.errors import PolicyError
    from twin.reproduce.experiment import load
    from twin.reproduce.result import holds

    name, *changes = plain
    experiment = load(name, changes)
    try:
        figures = experiment.figures()
    except PolicyError as error:
        streams.complain(f"twin reproduce: {name}: {one_line(str(error))}")
        return DIFFERS
    except BrokenProcessPool:
        streams.complain(f"twin reproduce: {name}: a process that simulated was killed, for want of memory perhaps (jobs=1)")
        return DIFFERS
    except KeyboardInterrupt:
        streams.complain(f"twin reproduce: {name}: {signals.in_words()}")
        return signals.exit_status()
    _print_json(experiment, figures) if as_json else _print(experiment, figures)
    return SAME if holds(figures) else DIFFERS


def _list() -> str:
    from twin.reproduce.experiment import load, names

    rows = [(name, load(name).title) for name in names()]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {title}" for name, title in rows)


def _print(experiment: "Experiment", figures: "list[Figure]") -> None:
    from rich.console import Console
    from rich.table import Table

    from twin.reproduce.result import verdict

    print(textwrap.fill(f"{experiment.title} ({experiment.source})", WIDTH))
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for heading in ("", "published", "ours", "direction", "size"):
        table.add_column(heading, justify="left" if heading == "" else "right", overflow="fold")
    for figure in figures:
        table.add_row(figure.what, figure.published, figure.ours, *map(_in_words, (figure.direction, figure.size)))
    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else WIDTH
    console.print(table)
    print(textwrap.fill(f"{verdict(figures)}. Alike: {experiment.alike}", WIDTH))
    if experiment.why:
        print(textwrap.fill(f"Why ours differs: {experiment.why}", WIDTH))


def _in_words(held: bool | None) -> str:
    return "" if held is None else "same" if held else "differs"


def _print_json(experiment: "Experiment", figures: "list[Figure]") -> None:
    from twin.reproduce.result import verdict

    about = {key: getattr(experiment, key) for key in ("name", "title", "source", "alike", "why")}
    about |= {"verdict": verdict(figures), "figures": [figure._asdict() for figure in figures]}
    print(json.dumps(about, indent=2, ensure_ascii=False, default=bool))  # a comparison of numpy's numbers is one of its own
