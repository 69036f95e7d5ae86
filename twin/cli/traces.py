"""`twin traces list | show | convert | fetch`: what traces there are, what they are like, as files, and from where."""

from twin.cli.subcommands import Subcommands

SUBCOMMANDS = {
    "list": ("twin.cli.traces_list", "built-in traces, file formats, public traces to fetch with their licences"),
    "show": ("twin.cli.traces_show", "statistics of a trace or file; of a generator beside its source's, with a figure"),
    "convert": ("twin.cli.traces_convert", "any readable trace into this project's Parquet or CSV"),
    "fetch": ("twin.cli.traces_fetch", "download a public trace from its published address into the cache, checked"),
}
COMMAND = Subcommands("traces", SUBCOMMANDS, "[NAME or FILE ...] [key=value ...]", "python -m twin traces show chat seed=1")


def main(words: list[str]) -> int:
    """Runs the subcommand; returns the exit status."""
    return COMMAND.run(words)
