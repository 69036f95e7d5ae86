"""`twin validate engine=vllm`: the simulator against runs of a real vLLM, recorded before (recorded=FOLDER) or now."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.ground_truth.options import OWN, SECTIONS, Own, check, own_words, refuse_others, tolerances
from engine.ground_truth.recording import RecordingError
from twin.cli import signals, streams
from twin.cli.compose import Composed, compose
from twin.cli.errors import UserError
from twin.cli.helptext import help_text, wants_help
from twin.cli.quoting import key_of

if TYPE_CHECKING:
    from engine.ground_truth.study import Study

DOES = """Compares the simulator with a real vLLM whose scheduler has put every step on record. Given vLLM's step times it
must decide as vLLM did in every step; by step times fitted to other runs its TTFT, TPOT, E2E and throughput must be those
of vLLM, each within a tolerance of its own. Runs are read (recorded=FOLDER), or played now by a vLLM that is started for
it (docs/ground_truth.md)."""
EXAMPLE = "python -m twin validate engine=vllm recorded=runs fit=load06 predict=load03"
ROOT = "validate_vllm"  # the file of conf/ that says what it is made of
ENGINE = "engine=vllm"  # the word that chooses this command
DONE, FAILED = 0, 1


def main(words: list[str]) -> int:
    """Reads or plays, replays, fits, predicts, saves; returns the exit status."""
    words = [word for word in words if word != ENGINE]
    if wants_help(words):
        _help(words)
        return DONE
    from twin.cli.job import command_line
    from twin.cli.options import check_options

    own = own_words(words)
    if own.recorded:
        refuse_others(own.rest)
    composed = compose(own.rest, root=ROOT)
    check_options(composed.values)
    check(composed.values)
    command = command_line("validate", [ENGINE, *words])
    return _recorded(own, composed, command) if own.recorded else _live(own, composed, command)


def _recorded(own: Own, composed: Composed, command: str) -> int:
    from engine.ground_truth.report import save
    from twin.cli.folder import claim, release, writing

    study = _opened(own.recorded, own, composed)
    folder = claim(composed.run_dir, composed.given("hydra.run.dir"))
    config = {
        "recorded": [str(path) for path in own.recorded], "fit": own.fit, "predict": own.predict,
        **{section: composed.values[section] for section in SECTIONS if section in composed.values},
    }  # fmt: skip
    with streams.work_first():
        try:
            _compare(study)
            with writing(folder) as files:
                save(files, study, config, command)
        except BaseException:
            release([folder])
            raise
        return _show(study, folder)


def _live(own: Own, composed: Composed, command: str) -> int:
    from engine.cli.status import status_line
    from engine.ground_truth.live.interpreter import find
    from engine.ground_truth.live.plan import make_plan
    from engine.ground_truth.live.process import VllmFailed
    from engine.ground_truth.live.session import pinned, play
    from engine.ground_truth.report import save
    from twin.cli.folder import claim, writing

    options = composed.values["vllm"]
    options["cores"] = pinned(options)
    plan = make_plan(composed, command, len(composed.values["validate"]["loads"]))
    interpreter = find(options["python"])
    folder = claim(composed.run_dir, composed.given("hydra.run.dir"))
    place = folder.resolve()
    with streams.work_first():
        for line in plan.job.trace.report.lines():
            print(line, flush=True)
        try:
            with status_line() as tell:
                played = play(plan, interpreter, place, tell)
        except VllmFailed as error:
            streams.complain(f"twin validate: {error}")
            return FAILED
        except KeyboardInterrupt:
            whole = sorted(path.name for path in (place / "recorded").glob("*"))
            kept = (
                f"{', '.join(whole)} are whole: recorded={place / 'recorded'}" if whole else "no run was played to its end"
            )
            streams.complain(f"twin validate: {signals.in_words()}; vLLM was ended; {kept}")
            return signals.exit_status()
        print(f"capacity of this vLLM: {played.requests_per_s:.3g} requests/s", flush=True)
        study = _opened([place / "recorded" / name for name in played.names], own, composed)
        _compare(study)
        with writing(folder) as files:
            save(files, study, plan.config | {"fit": own.fit, "predict": own.predict}, command)
        return _show(study, folder)


def _opened(folders: Sequence[Path], own: Own, composed: Composed) -> Study:
    """Raises `UserError` for what cannot be read, or compared."""
    from engine.ground_truth.reading import read_recordings
    from engine.ground_truth.study import Study

    try:
        return Study(read_recordings(folders), tolerances(composed.values), own.fit, own.predict)
    except RecordingError as error:
        message = str(error)
        raise UserError(message if message.startswith(("fit=", "predict=")) else f"recorded: {message}") from error


def _compare(study: Study) -> None:
    from engine.cli.status import status_line

    with status_line() as tell:
        try:
            tell("lockstep")
            study.lock()
            tell("fitting, and predicting")
            study.predict()
        except RecordingError as error:
            raise UserError(f"recorded: {error}") from error


def _show(study: Study, folder: Path) -> int:
    from engine.ground_truth.report import show

    show(study)
    print(f"written to {folder}", flush=True)
    return FAILED if study.wrong() else DONE


def _help(words: list[str]) -> None:
    lines = []
    for name, what in OWN.items():
        lines += textwrap.wrap(f"{name}=?  {what}", 118, initial_indent="  ", subsequent_indent="      ")
    does = "\n".join([DOES, "", "options of its own", *lines])
    rest = [word for word in words if key_of(word) not in OWN]
    print(help_text(f"validate {ENGINE}", does, EXAMPLE, rest, root=ROOT), end="")
