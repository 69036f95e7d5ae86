"""A user's mistake, told in one line."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(ValueError):
    """Bad input: the message names the option (or file and line) and what would be right; the command exits with 2."""


@contextmanager
def naming(option: str) -> Iterator[None]:
    """Turns what the layers below say of bad values and unreadable files into one line that names `option`."""
    try:
        yield
    except UserError:
        raise
    except OSError as error:
        raise UserError(_with(option, _of_file(error))) from error
    except (ValueError, TypeError) as error:
        raise UserError(_with(option, one_line(str(error)))) from error


def one_line(message: str) -> str:
    """The message with its line breaks and runs of blanks made single blanks."""
    return " ".join(message.split())


def _with(option: str, message: str) -> str:
    return message if option in message else f"{option}: {message}"


def _of_file(error: OSError) -> str:
    reason = (error.strerror or one_line(str(error))).lower()
    return f"{error.filename}: {reason}" if error.filename else reason
