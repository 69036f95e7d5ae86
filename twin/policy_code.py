"""The boundary where the code of a policy's author runs: whatever it raises becomes one line with file and line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twin.policy_parameters import PolicyFileError

MOST = 300  # letters of somebody else's message


@contextmanager
def their_code(place: Path | str, doing: str) -> Iterator[None]:
    """Raises `PolicyFileError` for all that the block raises; `doing` says what went on, e.g. "in the constructor".

    `place` is the file, whose line is then named too, or words where the file is not known.
    """
    try:
        yield
    except (KeyboardInterrupt, PolicyFileError):
        raise
    except SyntaxError as error:
        raise PolicyFileError(f"{error.filename or place}:{error.lineno or 1}: {said(error.msg)}") from error
    # Everything: authors have exceptions of their own, and sys.exit() in a policy must not end the command as if all were
    # well. Ctrl-C alone is not theirs.
    except BaseException as error:
        where = f"{place}:{line_in(place, error)}" if isinstance(place, Path) else f"{place}{innermost(error)}"
        message = f"{where}: {type(error).__name__} {doing}"
        raise PolicyFileError(f"{message}: {text}" if (text := said(error)) else message) from error


def said(message: object) -> str:
    """The text of an exception or object in one line of at most `MOST` letters; its author may have got that wrong too."""
    try:
        text = str(message)
    except Exception as error:
        return f"(its text raises {type(error).__name__})"
    line = " ".join(text[: 4 * MOST].split())
    return line if len(line) <= MOST and len(text) <= 4 * MOST else f"{line[:MOST]} ..."


def line_in(file: Path, error: BaseException) -> int:
    """The line of `file` at which the error came through it last; 1 when it did not."""
    line, step = 1, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(file):
            line = step.tb_lineno
        step = step.tb_next
    return line


def innermost(error: BaseException) -> str:
    """` (FILE:LINE)` where an error came from, if that was in no import machinery; else nothing."""
    found, step = "", error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if file != __file__ and "importlib" not in file and not file.endswith("class_file.py"):
            found = f" ({file}:{step.tb_lineno})"
        step = step.tb_next
    return found
