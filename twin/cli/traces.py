"""`twin traces list | show | convert | fetch`: what traces there are, what they are like, as files, and from where."""

from importlib import import_module

from twin.cli.errors import UserError
from twin.nearest import nearest

COMMANDS = {  # name: (module, what it does)
    "list": ("twin.cli.traces_list", "built-in traces, file formats, public traces to fetch with their licences"),
    "show": ("twin.cli.traces_show", "statistics of a trace or file; of a generator beside its source's, with a figure"),
    "convert": ("twin.cli.traces_convert", "any readable trace into this project's Parquet or CSV"),
    "fetch": ("twin.cli.traces_fetch", "download a public trace from its published address into the cache, checked"),
}


def main(words: list[str]) -> int:
    """Runs the subcommand; returns the exit status."""
    command = words[0] if words else None
    if command in ("--help", "-h"):
        print(overview())
        return 0
    if command not in COMMANDS:
        what = "no subcommand" if command is None else f"there is no traces {command}{nearest(command, COMMANDS)}"
        raise UserError(f"{what}; there are {', '.join(COMMANDS)}")
    module = import_module(COMMANDS[command][0])
    if "--help" in words or "-h" in words:
        print(module.HELP, end="")
        return 0
    return int(module.main(words[1:]))


def overview() -> str:
    """What `twin traces --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: python -m twin traces <subcommand> [NAME or FILE ...] [key=value ...]",
            "",
            *lines,
            "",
            "python -m twin traces <subcommand> --help shows its options",
            "example: python -m twin traces show chat seed=1",
        ]
    )
