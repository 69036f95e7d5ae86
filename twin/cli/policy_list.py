"""`twin policy list`: what policies there are."""

from itertools import groupby
from operator import attrgetter

from twin.cli.errors import UserError, naming
from twin.cli.policy import parsed
from twin.cli.policy_catalogue import Entry, entries

HELP = """usage: python -m twin policy list [policy_path=FOLDER] [format=table|markdown]

Shows all policies by family: what each does, what it decides, whether it needs a prediction of output lengths, its
parameters with their defaults. Those of ./policies, of policy_path and of installed packages are there too. A file that
cannot be used is one red line that says why.

options
  policy_path=FOLDER  where policies are looked for too, after ./policies
  format=markdown     with the whole descriptions, as in docs/shipped_policies.md

example: python -m twin policy list
"""
NARROWEST, WIDE = 90, 150  # columns of a terminal that the table needs at least; of a file that it goes to


def main(words: list[str]) -> int:
    """Prints the table."""
    _, options = parsed(words, (), ("policy_path", "format"))
    kind = options.get("format", "table")
    if kind not in ("table", "markdown"):
        raise UserError(f"format={kind}: must be table or markdown")
    with naming("policy_path"):
        listed = entries(options.get("policy_path"))
    if kind == "markdown":
        from twin.cli.policy_markdown import catalogue

        print(catalogue(listed), end="")
    else:
        _print(listed)
    return 0


def _print(listed: list[Entry]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.width = max(NARROWEST, console.width if console.is_terminal else WIDE)
    rows = [cells(entry) for entry in listed if not entry.error]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    decides, parameters = min(widths[2], console.width // 6), min(widths[3], console.width // 4)
    for family, members in groupby(listed, key=attrgetter("family")):
        table = Table(box=None, padding=(0, 0, 0, 2), show_header=False)
        for width in (widths[0], console.width - widths[0] - decides - parameters - 8, decides, parameters):
            table.add_column(width=width, overflow="fold")
        broken = []
        for entry in members:
            if entry.error:
                broken.append(entry)
            else:
                table.add_row(*(Text(cell) for cell in cells(entry)))
        console.print(Text(f"{family[:1].upper()}{family[1:]}", style="bold"))
        if table.row_count:
            console.print(table)
        for entry in broken:
            console.print(Text(f"  {entry.name}  cannot be used: {entry.error}", style="red"), soft_wrap=True)
        console.print()
    console.print(legend(listed))


def cells(entry: Entry) -> tuple[str, str, str, str]:
    """A row: name, what it does, what it decides, its parameters."""
    marks = ("*" if entry.needs_prediction else "") + ("✓" if entry.checked else "")
    parameters = " ".join(f"{name}={default}" for name, _, default in entry.parameters)
    return f"{entry.name} {marks}".rstrip(), entry.summary, ", ".join(entry.decides), parameters


def legend(listed: list[Entry]) -> str:
    """What the marks mean, as far as there are any."""
    words = ["* needs a prediction (predictor=oracle, ...)"] if any(entry.needs_prediction for entry in listed) else []
    words += ["✓ has passed twin check"] if any(entry.checked for entry in listed) else []
    return "\n".join([*words, "python -m twin policy show NAME tells more; policy.PARAMETER=VALUE sets a parameter"])
