"""The command line: finds the command, imports it, and turns what goes wrong into an exit status.

Exit status: 0 done; 1 ran, but something in it failed; 2 bad input; 130 interrupted. Nothing heavy is imported here, so
that `--version` and `--help` answer at once.
"""

import os
import sys
from importlib import import_module

from twin import __version__
from twin.cli.errors import UserError
from twin.nearest import nearest

COMMANDS = {  # name: (module, what it does)
    "run": ("twin.cli.run", "simulate a trace; print a summary, write a run folder"),
    "scenario": ("twin.cli.scenario", "play a hand-written micro-scenario step by step"),
    "traces": ("twin.cli.traces", "list, show, convert and fetch traces"),
    "plan": ("twin.cli.plan", "memory and concurrency of a model on a GPU"),
}
ALIASES = {"-h": "--help", "help": "--help", "-V": "--version", "version": "--version"}
USAGE = "usage: python -m twin <command> [key=value ...]"


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status and never lets a user's mistake end in a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = ALIASES.get(words[0], words[0]) if words else None
    if command == "--version":
        print(f"twin {__version__}")
        return 0
    if command == "--help":
        print(_overview())
        return 0
    if command not in COMMANDS:
        print(_not_a_command(command), file=sys.stderr)
        return 2
    try:
        status = int(import_module(COMMANDS[command][0]).main(words[1:]))
        sys.stdout.flush()
        return status
    except UserError as error:
        print(f"twin {command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"twin {command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader (head, less) has enough: not an error, and nothing is left to tell it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    example = "example: python -m twin run policy=fcfs trace=chat"
    return "\n".join([USAGE, "", *lines, "", "python -m twin <command> --help shows a command's options", example])


def _not_a_command(command: str | None) -> str:
    what = "no command" if command is None else f"unknown command {command!r}{nearest(command, COMMANDS)}"
    return f"twin: {what}\ncommands: {', '.join(COMMANDS)}"
