"""The command line: finds the command, imports it, and turns what goes wrong into an exit status.

Exit status: 0 done; 1 ran, but something in it failed; 2 bad input, or an output that could not be written (a file, or
standard output: then everything else was done); 130 interrupted, 128 + the number for other signals. Nothing heavy is
imported here, so that `--version` and `--help` answer at once.
"""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from twin import __version__
from twin.cli import signals, streams
from twin.cli.errors import UserError, of_file, one_line
from twin.nearest import nearest

COMMANDS = {  # name: (module, what it does)
    "run": ("twin.cli.run", "simulate a trace; print a summary, write a run folder"),
    "scenario": ("twin.cli.scenario", "play a hand-written micro-scenario step by step"),
    "check": ("twin.cli.check", "conformance test of a policy; a certificate for one that passes"),
    "policy": ("twin.cli.policy", "list, show and begin policies"),
    "traces": ("twin.cli.traces", "list, show, convert and fetch traces"),
    "calibrate": ("twin.cli.calibrate", "fit a step-latency model to measured steps, or to a request log"),
    "compare": ("twin.cli.compare", "runs and sweeps against each other, over the same requests"),
    "capacity": ("twin.cli.capacity", "the greatest arrival rate that meets service-level objectives"),
    "compile": ("twin.cli.compile", "the core as machine code: the same results, sooner"),
    "plan": ("twin.cli.plan", "memory and concurrency of a model on a GPU"),
    "report": ("twin.cli.report", "a page of figures and tables over a run or a sweep"),
    "reproduce": ("twin.cli.reproduce", "a published result, theirs and ours, with a verdict"),
    "validate": ("engine.validate.command", "the simulator against the real engine: decisions and times"),
}
ALIASES = {"-h": "--help", "help": "--help", "-V": "--version", "version": "--version"}


class Program(NamedTuple):
    """What `python -m NAME` is made of."""

    name: str
    commands: Mapping[str, tuple[str, str]]  # name: (module, what it does)
    example: str


TWIN = Program("twin", COMMANDS, "python -m twin run policy=fcfs trace=chat")


def main(arguments: list[str] | None = None, program: Program = TWIN) -> int:
    """Runs one command; returns the exit status and never lets a user's mistake end in a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = ALIASES.get(words[0], words[0]) if words else None
    name = f"{program.name} {command}" if command in program.commands else program.name
    streams.make_ready()
    try:
        with signals.interruptible():
            status = _run(program, command, words[1:])
            streams.flush()
            return status
    except (UserError, streams.OutputLost) as error:
        message = str(error)
    except KeyboardInterrupt:
        streams.complain(f"{name}: {signals.in_words()}")
        return signals.exit_status()
    except OSError as error:  # the file system, in a place where no option is to blame
        message = of_file(error)
    streams.complain(f"{name}: {one_line(message)}")
    return 2


def _run(program: Program, command: str | None, words: list[str]) -> int:
    if command is None or command not in (*program.commands, "--version", "--help"):
        streams.complain(_not_a_command(program, command))
        return 2
    status = 0
    with streams.checked():
        if command == "--version":
            print(f"{program.name} {__version__}")
        elif command == "--help":
            print(_overview(program))
        else:
            _find_working_folder()
            status = int(import_module(program.commands[command][0]).main(words))
    return status


def _find_working_folder() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise UserError(f"the working directory: {of_file(error)}; change to one that exists") from error


def _overview(program: Program) -> str:
    width = max(map(len, program.commands))
    usage = f"usage: python -m {program.name} <command> [key=value ...]"
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in program.commands.items()]
    more = f"python -m {program.name} <command> --help shows a command's options"
    return "\n".join([usage, "", *lines, "", more, f"example: {program.example}"])


def _not_a_command(program: Program, command: str | None) -> str:
    what = "no command" if command is None else f"unknown command {command!r}{nearest(command, program.commands)}"
    return f"{program.name}: {what}; the commands are {', '.join(program.commands)}"
