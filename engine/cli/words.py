"""What goes wrong in the engine, as the command line says it."""

from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import EngineError
from twin.cli.errors import UserError, one_line


@contextmanager
def users_mistakes() -> Iterator[None]:
    """An `EngineError` is a user's mistake: one line, exit status 2."""
    try:
        yield
    except EngineError as error:
        raise UserError(one_line(str(error))) from error


def torch_or_explain() -> None:
    """The engine needs packages that the simulator does not."""
    import importlib.util

    missing = [name for name in ("torch", "transformers", "gguf") if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"the engine needs {', '.join(missing)}: pip install 'twin-serving[engine]'")
