"""`twin policy list | show | new`: what policies there are, one of them in full, a start for one's own."""

from importlib import import_module

from twin.cli.errors import UserError
from twin.nearest import nearest

COMMANDS = {  # name: (module, what it does)
    "list": ("twin.cli.policy_list", "all policies: what they do, decide and need, their parameters"),
    "show": ("twin.cli.policy_show", "one policy in full: its description, parameters, file"),
    "new": ("twin.cli.policy_new", "write a commented start for a policy of one's own, which runs at once"),
}


def main(words: list[str]) -> int:
    """Runs the subcommand; returns the exit status."""
    command = words[0] if words else None
    if command in ("--help", "-h"):
        print(overview())
        return 0
    if command not in COMMANDS:
        what = "no subcommand" if command is None else f"there is no policy {command}{nearest(command, COMMANDS)}"
        raise UserError(f"{what}; there are {', '.join(COMMANDS)}")
    module = import_module(COMMANDS[command][0])
    if "--help" in words or "-h" in words:
        print(module.HELP, end="")
        return 0
    return int(module.main(words[1:]))


def overview() -> str:
    """What `twin policy --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: python -m twin policy <subcommand> [NAME] [key=value ...]",
            "",
            *lines,
            "",
            "python -m twin policy <subcommand> --help shows its options",
            "example: python -m twin policy new my_policy",
        ]
    )


def parsed(words: list[str], places: tuple[str, ...], options: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """The words that are no options, one for each of `places`, and the options (`key=value`, or `--key value`)."""
    positional: list[str] = []
    given: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("-") and not equals:
            positional.append(word)
            continue
        if name not in options:
            there = f"there is {', '.join(options)}" if options else "it takes none"
            raise UserError(f"{word}: no such option{nearest(name, options)}; {there}")
        given[name] = value if equals else next(rest, "")
        if not given[name]:
            raise UserError(f"{name}: give {name}=...")
    if len(positional) != len(places):
        wanted = f"give one {' and one '.join(places)}" if places else "give no names"
        raise UserError(f"{wanted}, not {', '.join(positional) or 'none'}; see --help")
    return positional, given
