"""`twin calibrate`: a step-latency model from measured steps (profile=), or from a log of requests (requests=)."""

import textwrap
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from twin.cli.compose import compose
from twin.cli.errors import UserError, naming
from twin.cli.helptext import help_text, wants_help
from twin.cli.quoting import key_of

if TYPE_CHECKING:
    from twin.calibrate.server.findings import Server

DOES = """Fits a step-latency model to measured steps (profile=FILE), or to what requests met (requests=FILE); writes a
latency file for latency=fitted latency.path=NAME.yaml, and a report of the errors where it was not fitted
(docs/calibrate.md)."""
EXAMPLE = "python -m twin calibrate profile=profile.parquet to=mine.yaml"
KINDS = {"profile": "twin.calibrate.profile", "requests": "twin.calibrate.requests.command"}


def main(words: list[str]) -> int:
    """Says which of the two it is, composes the rest, and hands over; returns the exit status."""
    typed = [key for word in words if (key := key_of(word)) in KINDS]
    if wants_help(words):
        _help(words, typed)
        return 0
    if len(set(typed)) != 1:
        what = "give one of them, not both" if typed else "missing; give the file to fit to"
        raise UserError(f"profile=, requests=: {what}: measured steps (profile=FILE), or a request log (requests=FILE)")
    command = import_module(KINDS[typed[0]])
    own = {str(key): word.partition("=")[2] for word in words if (key := key_of(word)) in command.OWN}
    rest = [word for word in words if key_of(word) not in command.OWN]
    for word in rest:
        _check(word, command)
    from twin.calibrate.options import Options
    from twin.calibrate.server.findings import Server
    from twin.cli.job import command_line
    from twin.cli.options import check_options

    composed = compose(rest)
    check_options(composed.values)
    own = {name: default for name, (default, _) in command.OWN.items()} | own
    server = Server()
    if own.get("served") or own.get("metrics"):
        server = _server(own, rest, composed.values["cache"]["block_size"])
        composed = compose([*server.words, *rest])
        check_options(composed.values)
    given = frozenset(key for word in (*server.words, *rest) if (key := key_of(word)))
    options = Options(own, composed.values, given, command_line("calibrate", words), server)
    with naming(typed[0]):
        return int(command.main(options))


def _server(own: dict[str, str], words: list[str], block_size: int) -> "Server":
    """What the server's own log and scrapes say of the options, of which the user gives `words`."""
    from twin.calibrate.server.findings import server
    from twin.calibrate.server.reading import read_info, read_served

    said = []
    for option, read in (("served", read_served), ("metrics", read_info)):
        if own[option]:
            with naming(option):
                said.append(read(Path(own[option])))
    with naming("served"):
        return server(said, {key_of(word): word.partition("=")[2] for word in words}, block_size)


def _check(word: str, command: ModuleType) -> None:
    """It is an option of this command, or of a section that it reads."""
    section = (key_of(word) or word).partition(".")[0].lstrip("+~")
    if not word.startswith("-") and section not in command.SECTIONS:
        there = ", ".join([*command.OWN, *command.SECTIONS])
        raise UserError(f"{word}: twin calibrate with this kind of file takes {there}")


def _help(words: list[str], typed: list[str]) -> None:
    command = import_module(KINDS[typed[0] if typed else "profile"])
    lines = []
    for name, (default, what) in command.OWN.items():
        lines += textwrap.wrap(f"{name}={default or '?'}  {what}", 118, initial_indent="  ", subsequent_indent="      ")
    other = "" if typed else "\n  requests=?  a request log instead: its options are those of --help requests=LOG"
    does = "\n".join([DOES, "", "options of its own", *lines]) + other
    rest = [word for word in words if key_of(word) not in (*KINDS, *command.OWN)]
    print(help_text("calibrate", does, EXAMPLE, rest, command.SECTIONS), end="")
