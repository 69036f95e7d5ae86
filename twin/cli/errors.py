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
        raise UserError(_with(option, of_file(error))) from error
    except MemoryError as error:
        raise UserError(f"{option}: takes more memory than there is") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError(_with(option, one_line(str(error)))) from error


def one_line(message: str, most: int = 2000) -> str:
    """The message in at most so many letters: runs of blanks and line breaks are one blank, odd letters are escaped."""
    line = " ".join(message[: 2 * most].split())
    shown = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line[:most])
    return f"{shown} ..." if len(line) > most or len(message) > 2 * most else shown


def of_file(error: OSError) -> str:
    """What the operating system says of a file, in one line."""
    reason = (error.strerror or one_line(str(error))).lower()
    return f"{error.filename}: {reason}" if error.filename else reason


def _with(option: str, message: str) -> str:
    return message if option in message else f"{option}: {message}"
