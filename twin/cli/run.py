"""`twin run`: simulate a trace under a policy, print a summary, leave a run folder."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from twin.cli import signals, streams
from twin.cli.compose import compose
from twin.cli.errors import UserError, one_line
from twin.cli.helptext import help_text, wants_help

if TYPE_CHECKING:
    from twin.cli.job import Job
    from twin.cli.pool_view import PoolWatch
    from twin.results.record import Record
    from twin.results.summary import Summary

DOES = """Simulates a trace on one replica under a policy; prints a summary table and writes a run folder (hydra.run.dir).
With -m options take lists of values, and every combination is run (docs/sweeps.md)."""
EXAMPLE = "python -m twin run policy=fcfs trace=chat trace.rate=4 hydra.run.dir=outputs/first"
DONE, FAILED = 0, 1  # and 128 + the signal that interrupted it
SWEEP = ("-m", "--multirun")  # a grid of runs instead of one
SAVED = "what was done until then is saved"


class Outcome(NamedTuple):
    """What came of a simulation: the record of all that was done, and the exit status that it deserves."""

    record: "Record"
    status: int
    message: str = ""  # why it is not DONE
    pool_page: str | None = None  # the HTML of pool.html, where it was asked for


def main(words: list[str]) -> int:
    """Composes, builds, claims the folder, simulates, saves; returns the exit status."""
    if wants_help(words):
        print(help_text("run", DOES, EXAMPLE, [word for word in words if word not in SWEEP]), end="")
        return DONE
    if any(word in SWEEP for word in words):
        from twin.cli.sweep import run_sweep

        return run_sweep(words)
    from twin.cli.folder import claim
    from twin.cli.job import build, command_line

    composed = compose(words)
    command = command_line("run", words)
    if composed.values.get("seeds") != 1:
        from twin.cli.seeds import run_seeds

        return run_seeds(composed, command)
    job = build(composed, command)
    folder = claim(composed.run_dir, composed.given("hydra.run.dir"))
    with streams.work_first():
        print("\n".join(job.lines), flush=True)
        outcome, summary = carry_out(job, folder)
        show(summary, outcome, folder)
    return outcome.status


def carry_out(job: "Job", folder: Path) -> "tuple[Outcome, Summary]":
    """Simulates and saves: the simulation may be interrupted, the saving of its numbers not, the pictures again.

    Raises `UserError` when the folder cannot be written to any more, KeyboardInterrupt when there is nothing to save.
    """
    from twin.cli.folder import release
    from twin.results.atomic import OutputError
    from twin.results.save import save_numbers, save_pictures

    output = job.config["output"]
    saved = False
    try:
        with signals.held():
            try:
                outcome = simulated(job, folder)
            finally:
                notes = job.backend.finish(folder)
            record = outcome.record
            record.notes += notes
            summary = summarized(job, record)
            about = job.config_with_provenance(record.notes)
            save_numbers(folder, record, summary, about)
            saved = True
        asked_for = {name: output[name] for name in ("figures", "report", "timeline")}
        save_pictures(folder, record, summary, about, pool_page=outcome.pool_page, **asked_for)
    except OutputError as error:
        release([folder])
        kept = "; the numbers of the run are saved" if saved else ""
        raise UserError(f"hydra.run.dir={folder}: {error}{kept}") from error
    except KeyboardInterrupt:
        if not saved:
            release([folder])
            raise
        late = f"{signals.in_words()} while the pictures were made; they are left out, the numbers are saved"
        message = f"{outcome.message}, without pictures" if outcome.message else late
        outcome = outcome._replace(status=outcome.status or signals.exit_status(), message=message)
    return outcome, summary


def summarized(job: "Job", record: "Record") -> "Summary":
    """The summary of what was done; where the warm-up leaves nothing of it, the record gets a note."""
    from twin.results.summary import summarize

    measured = {name: job.config[name] for name in ("warmup_s", "warmup_requests")}
    summary = summarize(record, slo=job.slo, **measured)
    if not summary["requests"] and len(job.trace):
        asked = " ".join(f"{name}={value}" for name, value in measured.items() if value)
        record.notes.append(f"{asked}: all {len(job.trace):,} requests are in the warm-up, none is measured")
    return summary


def simulated(job: "Job", folder: Path) -> Outcome:
    """Runs the simulation to its end, to an interruption, or to what a policy does wrong; the record has all."""
    from twin.cli.progress import ProgressBar
    from twin.core.errors import PolicyError
    from twin.results.record import Record

    max_wall_s = job.config["simulate"]["max_wall_s"]
    with ExitStack() as stack:
        watch = _receive_decisions(job, folder, stack)
        progress = stack.enter_context(ProgressBar(len(job.trace)))
        try:
            with signals.heeded():
                done = job.simulation.run(progress, max_wall_s)
        except PolicyError as error:
            page = watch.page(job.config) if watch else None
            return Outcome(Record(**vars(error.record)), FAILED, f"{one_line(str(error))}; {SAVED}", page)
    page = watch.page(job.config) if watch else None
    job.forget_simulation()
    record = Record(**vars(done))
    if record.complete or (max_wall_s is not None and record.wall_s > max_wall_s):
        return Outcome(record, DONE, pool_page=page)
    return Outcome(record, signals.exit_status(), f"{signals.in_words()}; {SAVED}", page)


def _receive_decisions(job: "Job", folder: Path, stack: ExitStack) -> "PoolWatch | None":
    """Sends each step to where it is asked for: decisions.jsonl.gz, and a watch over the pool, which is returned."""
    from twin.results.folder import DECISIONS

    output = job.config["output"]
    receivers: list[Callable[[dict[str, Any]], None]] = []
    if output["decisions"]:
        from twin.results.decisions import DecisionsWriter

        receivers.append(stack.enter_context(DecisionsWriter(folder / DECISIONS)))
    else:
        (folder / DECISIONS).unlink(missing_ok=True)  # an earlier run's, beside this one's numbers
    watch = None
    if output["pool_view"]:
        from twin.cli.pool_view import PoolWatch

        watch = PoolWatch(job.simulation.scheduler)
        receivers.append(watch)
    if job.decisions is not None:
        job.decisions.receiver = receivers[0] if len(receivers) == 1 else partial(_to_all, receivers)
    return watch


def _to_all(receivers: list[Callable[[dict[str, Any]], None]], step: dict[str, Any]) -> None:
    for receive in receivers:
        receive(step)


def show(summary: "Summary", outcome: Outcome, folder: Path, command: str = "twin run") -> None:
    """The summary on the terminal, where everything is, and what went wrong."""
    from twin.results.terminal import print_summary

    print_summary(summary)
    for note in outcome.record.notes:
        if not outcome.message.startswith(shown := one_line(note)):
            print(f"note: {shown}")
    print(f"written to {folder}", flush=True)
    if outcome.message:
        streams.complain(f"{command}: {outcome.message}")
