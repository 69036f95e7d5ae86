"""What a worker of a sweep does: one `twin run`, silently, and job.json says what came of it."""

import os
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from twin.cli.compose import compose
from twin.cli.errors import UserError, of_file, one_line
from twin.cli.folder import claim
from twin.cli.job import build, command_line
from twin.cli.run import DONE, FAILED, carry_out
from twin.sweep import ledger


def task(_: Any) -> None:
    """The task function of Hydra's launchers; which job it is, Hydra's configuration says. Fails by job.json alone."""
    from hydra.core.hydra_config import HydraConfig

    from twin.sweep.loader import words_of

    config = HydraConfig.get()
    folder = Path(str(config.runtime.output_dir))
    os.chdir(str(config.runtime.cwd))  # whose relative paths and policies the words mean
    simulate(words_of(config), folder)


def simulate(words: Sequence[str], folder: Path) -> None:
    """Runs what the words describe into the folder.

    Raises KeyboardInterrupt when interrupted, FileNotFoundError where the sweep's folder is not seen from here.
    """
    ledger.mark(folder, ledger.RUNNING)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            status, reason = _run(words, folder)
    except UserError as error:
        status, reason = FAILED, str(error)
    except OSError as error:
        status, reason = FAILED, of_file(error)
    except KeyboardInterrupt:
        ledger.mark(folder, ledger.INTERRUPTED)
        raise
    if status in (DONE, FAILED):
        ledger.mark(folder, ledger.FINISHED if status == DONE else ledger.FAILED, one_line(reason))
        return
    ledger.mark(folder, ledger.INTERRUPTED)
    raise KeyboardInterrupt


def _run(words: Sequence[str], folder: Path) -> tuple[int, str]:
    composed = compose(list(words))
    job = build(composed, command_line("run", words))
    outcome, _ = carry_out(job, claim(folder, given=True))
    return outcome.status, outcome.message
