"""`twin validate`: the same trace through the simulator and the real engine, and whether they agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.cli.status import status_line
from engine.cli.words import torch_or_explain, users_mistakes
from twin.cli import signals, streams
from twin.cli.compose import Composed, compose
from twin.cli.errors import one_line
from twin.cli.helptext import help_text, wants_help
from twin.cli.quoting import key_of
from twin.core.errors import PolicyError

if TYPE_CHECKING:
    from engine.validate.laboratory import Case, Laboratory
    from engine.validate.matrix import Matrix
    from engine.validate.options import Options

DOES = """Plays a trace on the real engine and in the simulator. Given the engine's step times the simulator must decide as
the engine did, step by step; by a latency model fitted to the engine (or latency.path=FILE) its TTFT, TPOT, E2E and
throughput must be those of the engine at several loads, each within a tolerance of its own (docs/validate.md)."""
EXAMPLE = "python -m twin validate policy=fcfs trace=chat model=small engine.threads=1 validate.loads=0.7"
VLLM = "engine=vllm"  # not our engine, but a real vLLM: a command of its own
ROOT = "validate"  # the file of conf/ that says what it is made of
DONE, FAILED = 0, 1


def main(words: list[str]) -> int:
    """Composes, opens all cases, claims the folder, plays, saves; returns the exit status."""
    if VLLM in words:
        from engine.ground_truth.command import main as against_vllm

        return against_vllm(words)
    if wants_help(words):
        print(help_text("validate", DOES, EXAMPLE, words, root=ROOT), end="")
        return DONE
    torch_or_explain()
    from engine.validate.laboratory import Laboratory
    from engine.validate.matrix import Matrix
    from engine.validate.options import as_lists
    from engine.validate.quiet import core_for, pinned
    from engine.validate.report import save
    from twin.cli.folder import claim, release, writing
    from twin.cli.job import command_line

    command = command_line("validate", words)
    words = [as_lists(word) for word in words]
    composed, options = _composed(words)
    laboratory = Laboratory()
    cases = _cases(words, composed, options, laboratory, command)
    given = any(map(composed.given, ("latency", "latency.path")))
    latency = cases[0].job.simulation.setup.latency if given else None
    folder = claim(composed.run_dir, composed.given("hydra.run.dir"))
    with streams.work_first():
        for line in dict.fromkeys(line for case in cases for line in case.job.lines if given or not _of_latency(line)):
            print(line, flush=True)
        assert laboratory.backend.loaded is not None
        core = core_for(cases[0].job.config, laboratory.backend.loaded.device.type)
        with status_line() as tell, pinned(core), users_mistakes():
            matrix = Matrix(laboratory, cases, options, latency, tell)
            try:
                with signals.held():
                    message = _played(matrix)
                    matrix.conclude()
                    with writing(folder) as files:
                        save(files, matrix, cases[0].job.config, command)
            except PolicyError as error:
                release([folder])
                streams.complain(f"twin validate: {one_line(str(error))}")
                return FAILED
            except BaseException:
                release([folder])
                raise
        return _show(matrix, folder, message)


def _composed(words: list[str]) -> tuple[Composed, Options]:
    """Raises `UserError` for what is wrong, or cannot be compared."""
    from engine.options import check_engine_options
    from engine.validate.options import options_of, refuse_unlike
    from twin.cli.options import check_options

    composed = compose(words, root=ROOT)
    check_options(composed.values)
    check_engine_options(composed.values)
    refuse_unlike(composed.values)
    return composed, options_of(composed.values)


def _cases(words: list[str], composed: Composed, options: Options, laboratory: Laboratory, command: str) -> list[Case]:
    """Each policy on each trace, built: all mistakes come to light before anything is played."""
    cases = []
    for policy in options.policies or [""]:
        for trace in options.traces or [""]:
            chosen = {key: value for key, value in (("policy", policy), ("trace", trace)) if value}
            rest = [word for word in words if key_of(word) not in chosen]
            one = compose([*rest, *(f"{key}={value}" for key, value in chosen.items())], root=ROOT) if chosen else composed
            cases.append(laboratory.open(one, command))
    return cases


def _of_latency(line: str) -> bool:
    """Of a model that is not used, since one is fitted."""
    return line.startswith(("step latency:", "step times", "note: latency="))


def _played(matrix: Matrix) -> str:
    """Plays; in words what ended it before its end. Raises KeyboardInterrupt and PolicyError if there is nothing to save."""
    try:
        with signals.heeded():
            matrix.run()
    except (KeyboardInterrupt, PolicyError) as error:
        if not matrix.worth_saving:
            raise
        return signals.in_words() if isinstance(error, KeyboardInterrupt) else one_line(str(error))
    return ""


def _show(matrix: Matrix, folder: Any, message: str) -> int:
    from engine.validate.report import show
    from engine.validate.tables import outside

    show(matrix)
    print(f"written to {folder}", flush=True)
    if message:
        streams.complain(f"twin validate: {message}; what was played until then is saved")
        return signals.exit_status() if message == signals.in_words() else FAILED
    return FAILED if outside(matrix) else DONE
