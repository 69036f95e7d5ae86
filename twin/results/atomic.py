"""Files that are written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


class OutputError(OSError):
    """A file or folder could not be written; its text is one line that says which and why."""


def reason(error: OSError) -> str:
    """What the operating system says, in one line."""
    return (error.strerror or str(error) or type(error).__name__).splitlines()[0]


class AtomicFile:
    """A binary file under a temporary name beside its own, until `commit` gives it that or `abort` removes it.

    Raises OutputError where the system refuses, and has then removed the temporary file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            self.handle: BinaryIO = open(self._temporary, "wb")  # noqa: SIM115
        except OSError as error:
            raise self.failure(error) from error

    def close(self) -> None:
        """Ends the writing, without giving the file its name yet."""
        try:
            self.handle.close()  # the last bytes may still find the disk full
        except OSError as error:
            self._temporary.unlink(missing_ok=True)
            raise self.failure(error) from error

    def commit(self) -> None:
        """Closes the file and gives it its name, in place of an older one."""
        self.close()
        try:
            os.replace(self._temporary, self.path)
        except OSError as error:
            raise self.failure(error) from error
        finally:
            self._temporary.unlink(missing_ok=True)

    def abort(self) -> None:
        """Closes and removes the file; an older one of the same name stays."""
        try:
            self.handle.close()
        except OSError:
            pass  # what could not be flushed is thrown away anyway
        self._temporary.unlink(missing_ok=True)

    def failure(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write {self.path}: {reason(error)}")


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A handle on a file that gets its name when the block ends well, and never exists when it does not."""
    file = AtomicFile(path)
    done = False
    try:
        yield file.handle
        done = True
    except OutputError:
        raise
    except OSError as error:
        raise file.failure(error) from error
    finally:
        if not done:
            file.abort()
    file.commit()
