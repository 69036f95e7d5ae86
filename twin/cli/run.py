"""`twin run`: simulate a trace under a policy, print a summary, leave a run folder."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from twin.cli.compose import compose
from twin.cli.errors import UserError
from twin.cli.helptext import help_text, wants_help

if TYPE_CHECKING:
    from twin.cli.job import Job
    from twin.results.record import Record
    from twin.results.summary import Summary

DOES = "Simulates a trace on one replica under a policy; prints a summary table and writes a run folder (hydra.run.dir)."
EXAMPLE = "python -m twin run policy=fcfs trace=chat trace.rate=4 hydra.run.dir=outputs/first"
DONE, FAILED, INTERRUPTED = 0, 1, 130


class Outcome(NamedTuple):
    """What came of a simulation: the record of all that was done, and the exit status that it deserves."""

    record: "Record"
    status: int
    message: str = ""  # why it is not DONE


def main(words: list[str]) -> int:
    """Composes, builds, claims the folder, simulates, saves; returns the exit status."""
    if wants_help(words):
        print(help_text("run", DOES, EXAMPLE, words), end="")
        return DONE
    from twin.cli.folder import claim
    from twin.cli.job import build, command_line

    composed = compose(words)
    command = command_line("run", words)
    if composed.values.get("seeds") != 1:
        from twin.cli.seeds import run_seeds

        return run_seeds(composed, command)
    job = build(composed, command)
    folder = claim(composed.run_dir, composed.given("hydra.run.dir"))
    print("\n".join(job.lines), flush=True)
    outcome, summary = carry_out(job, folder)
    show(summary, outcome, folder)
    return outcome.status


def carry_out(job: "Job", folder: Path) -> "tuple[Outcome, Summary]":
    """Simulates and saves. Raises `UserError` when the folder cannot be written to any more."""
    from twin.cli.folder import release
    from twin.results.atomic import OutputError
    from twin.results.save import save_run
    from twin.results.summary import summarize

    config, output = job.config, job.config["output"]
    try:
        outcome = simulated(job, folder)
        record = outcome.record
        summary = summarize(record, slo=job.slo, warmup_s=config["warmup_s"], warmup_requests=config["warmup_requests"])
        pictures = {name: output[name] for name in ("figures", "report", "timeline")}
        save_run(folder, record, summary, job.config_with_provenance(record.notes), **pictures)
    except OutputError as error:
        release([folder])
        raise UserError(f"hydra.run.dir={folder}: {error}") from error
    return outcome, summary


def simulated(job: "Job", folder: Path) -> Outcome:
    """Runs the simulation to its end, to Ctrl-C, or to what a policy does wrong; whatever is done is in the record."""
    from twin.cli.progress import ProgressBar
    from twin.core.errors import PolicyError
    from twin.results.decisions import DecisionsWriter
    from twin.results.folder import DECISIONS
    from twin.results.record import Record

    max_wall_s = job.config["simulate"]["max_wall_s"]
    with ExitStack() as stack:
        if job.decisions is None:
            (folder / DECISIONS).unlink(missing_ok=True)  # an earlier run's, beside this one's numbers
        else:
            job.decisions.receiver = stack.enter_context(DecisionsWriter(folder / DECISIONS))
        progress = stack.enter_context(ProgressBar(len(job.trace)))
        try:
            done = job.simulation.run(progress, max_wall_s)
        except PolicyError as error:
            return Outcome(Record(**vars(error.record)), FAILED, str(error))
    record = Record(**vars(done))
    if record.complete or (max_wall_s is not None and record.wall_s > max_wall_s):
        return Outcome(record, DONE)
    return Outcome(record, INTERRUPTED, "interrupted")


def show(summary: "Summary", outcome: Outcome, folder: Path) -> None:
    """The summary on the terminal, where everything is, and what went wrong."""
    from twin.results.terminal import print_summary

    print_summary(summary)
    for note in outcome.record.notes:
        if note != outcome.message:
            print(f"note: {note}")
    print(f"written to {folder}", flush=True)
    if outcome.message:
        print(f"twin run: {outcome.message}; what was done until then is saved", file=sys.stderr)
