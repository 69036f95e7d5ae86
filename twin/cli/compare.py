"""`twin compare`: runs and sweeps against each other over the same requests, with intervals, tables and figures."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twin.cli import signals, streams
from twin.cli.compare_options import CompareOptions, help_lines, read_options
from twin.cli.errors import UserError
from twin.cli.helptext import wants_help

if TYPE_CHECKING:
    from twin.compare.compare import Comparison
    from twin.compare.schedule import Parting

DOES = """Compares the folders of runs (of several seeds too) that served the same requests, or the jobs of sweeps: every
figure with its confidence interval, differences to the first request by request or seed by seed, where the schedules part
(docs/compare.md)."""
EXAMPLE = "python -m twin compare outputs/fcfs outputs/srpt slo.ttft_s=1"
MOST_SCENES = 12  # with figures and tables of their own on the terminal
Schedules = list[tuple[str, str, str, "Parting"]]  # scene, baseline, variant, where they part


def main(words: list[str]) -> int:
    """Reads, compares, writes; returns the exit status."""
    if wants_help(words):
        usage = "usage: python -m twin compare FOLDER [FOLDER ...] [option=value ...]"
        print(
            "\n".join([usage, "", DOES, "", "options (the value now: what it is)", *help_lines(), "", f"example: {EXAMPLE}"])
        )
        return 0
    paths, options = read_options(words)
    from twin.cli.folder import claim, release
    from twin.compare.compare import compare
    from twin.compare.traces import scenes
    from twin.compare.variants import read_variants
    from twin.results.load import RunError

    try:
        variants, notes = read_variants(paths)
        found = scenes(variants, options.different_traces)
        if sum(len(scene.variants) for scene in found) < 2:
            raise UserError(f"{paths[0]}: one run alone; give a second folder to compare it with, or a sweep")
        comparisons = [compare(scene, options.how) for scene in found]
        partings = _partings(comparisons)
    except RunError as error:
        raise UserError(str(error)) from error
    except ValueError as error:
        raise UserError(str(error)) from error
    folder = claim(options.folder or Path(time.strftime("outputs/%Y-%m-%d/%H-%M-%S")), options.folder is not None, "to")
    try:
        with streams.work_first():
            _print(comparisons, partings, notes)
            _write(folder, comparisons, partings, notes, options)
            print(f"written to {folder}", flush=True)
    finally:
        release([folder])  # goes if nothing is in it
    return 0


def _partings(comparisons: "Sequence[Comparison]") -> Schedules:
    """Of each variant against its baseline, in the first seed that both have."""
    from twin.compare.schedule import parting

    found: Schedules = []
    for each in comparisons:
        if not each.scene.paired:
            continue
        seed = each.scene.seeds[0]
        base = next(variant for variant in each.scene.variants if variant.label == each.baseline)
        for variant in each.scene.variants:
            if variant is not base:
                tables = base.runs[seed].steps, variant.runs[seed].steps
                at = parting(base.folders[seed], variant.folders[seed], tables)
                found.append((each.scene.name, base.label, variant.label, at))
    return found


def _print(comparisons: "Sequence[Comparison]", partings: Schedules, notes: list[str]) -> None:
    from rich.console import Console

    from twin.compare.schedule import parting_words
    from twin.compare.tables import pair_words, terminal, told

    console = Console(highlight=False, markup=False, width=None if _wide() else 132)
    for each in comparisons[:MOST_SCENES]:
        if each.scene.name:
            print(each.scene.name)
        console.print(terminal(each.rows))
        for pairs in each.pairs:
            if pairs.variant not in each.identical:
                print(pair_words(pairs))
        for scene, base, variant, at in partings:
            if scene == each.scene.name:
                print("\n".join(parting_words(base, variant, at)))
        print("\n".join(f"note: {line}" for line in told(each)), end="\n\n")
    if len(comparisons) > MOST_SCENES:
        print(f"and {len(comparisons) - MOST_SCENES} more traces, see the files")
    for line in notes:
        print(f"note: {line}")


def _write(
    folder: Path, comparisons: "Sequence[Comparison]", partings: Schedules, notes: list[str], options: CompareOptions
) -> None:
    """All files or none; the figures apart, so that Ctrl-C costs no numbers."""
    from twin.compare.files import write_figures, write_numbers, write_page
    from twin.results.atomic import OutputError

    try:
        with signals.held():
            write_numbers(folder, comparisons, [(scene, *rest) for scene, *rest in partings], notes)
        if options.figures:
            write_figures(folder, comparisons[:MOST_SCENES], comparisons)
        if options.report:
            write_page(folder, comparisons, partings, notes)
    except OutputError as error:
        raise UserError(f"to={folder}: {error}") from error


def _wide() -> bool:
    import sys

    return sys.stdout.isatty()
