"""`twin validate engine=vllm`: the simulator against runs of a real vLLM."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.cli import streams
from twin.cli.compose import compose
from twin.cli.errors import UserError
from twin.cli.helptext import help_text, wants_help
from twin.cli.quoting import key_of

if TYPE_CHECKING:
    from engine.ground_truth.study import Study

DOES = """Compares the simulator with a real vLLM whose scheduler has put every step on record. Given vLLM's step times it
must decide as vLLM did in every step; by step times fitted to other runs its TTFT, TPOT, E2E and throughput must be those
of vLLM, each within a tolerance of its own (docs/ground_truth.md)."""
EXAMPLE = "python -m twin validate engine=vllm recorded=runs fit=load06 predict=load03"
ROOT = "validate_vllm"  # the file of conf/ that says what it is made of
ENGINE = "engine=vllm"  # the word that chooses this command
DONE, FAILED = 0, 1


def main(words: list[str]) -> int:
    """Reads, replays, fits, predicts, saves; returns the exit status."""
    from engine.ground_truth.options import own_words, refuse_others, tolerances

    words = [word for word in words if word != ENGINE]
    if wants_help(words):
        _help(words)
        return DONE
    from twin.cli.folder import claim, release
    from twin.cli.job import command_line
    from twin.cli.options import check_options

    own = own_words(words)
    if not own.recorded:
        raise UserError("recorded: missing; give recorded=FOLDER, a recorded run or several in folders of their own")
    refuse_others(own.rest)
    composed = compose(own.rest, root=ROOT)
    check_options(composed.values)
    study = _opened(own, tolerances(composed.values))
    folder = claim(composed.run_dir, composed.given("hydra.run.dir"))
    config = {
        "recorded": [str(path) for path in own.recorded], "fit": own.fit, "predict": own.predict,
        "validate": composed.values["validate"], "output": composed.values["output"],
    }  # fmt: skip
    with streams.work_first():
        try:
            _run(study)
            _save(folder, study, config, command_line("validate", [ENGINE, *words]))
        except BaseException:
            release([folder])
            raise
        return _show(study, folder)


def _opened(own: Any, limits: Any) -> Study:
    """Raises `UserError` for what cannot be read, or compared."""
    from engine.ground_truth.reading import read_recordings
    from engine.ground_truth.recording import RecordingError
    from engine.ground_truth.study import Study

    try:
        return Study(read_recordings(own.recorded), limits, own.fit, own.predict)
    except RecordingError as error:
        message = str(error)
        raise UserError(message if message.startswith(("fit=", "predict=")) else f"recorded: {message}") from error


def _run(study: Study) -> None:
    from engine.cli.status import status_line
    from engine.ground_truth.recording import RecordingError

    with status_line() as tell:
        try:
            tell("lockstep")
            study.lock()
            tell("fitting, and predicting")
            study.predict()
        except RecordingError as error:
            raise UserError(f"recorded: {error}") from error


def _save(folder: Path, study: Study, config: dict[str, Any], command: str) -> None:
    from engine.ground_truth.report import save
    from twin.results.atomic import OutputError
    from twin.results.folder import RunFolder

    try:
        with RunFolder(folder) as files:
            save(files, study, config, command)
    except OutputError as error:
        raise UserError(f"hydra.run.dir={folder}: {error}") from error


def _show(study: Study, folder: Path) -> int:
    from engine.ground_truth.report import show

    show(study)
    print(f"written to {folder}", flush=True)
    return FAILED if study.wrong() else DONE


def _help(words: list[str]) -> None:
    from engine.ground_truth.options import OWN, SECTIONS

    lines = []
    for name, what in OWN.items():
        lines += textwrap.wrap(f"{name}=?  {what}", 118, initial_indent="  ", subsequent_indent="      ")
    does = "\n".join([DOES, "", "options of its own", *lines])
    rest = [word for word in words if key_of(word) not in OWN]
    print(help_text(f"validate {ENGINE}", does, EXAMPLE, rest, SECTIONS, root=ROOT), end="")
