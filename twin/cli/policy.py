"""`twin policy list | show | new`: what policies there are, one of them in full, a start for one's own."""

from twin.cli.errors import UserError
from twin.cli.subcommands import Subcommands
from twin.nearest import nearest

SUBCOMMANDS = {
    "list": ("twin.cli.policy_list", "all policies: what they do, decide and need, their parameters"),
    "show": ("twin.cli.policy_show", "one policy in full: its description, parameters, file"),
    "new": ("twin.cli.policy_new", "write a commented start for a policy of one's own, which runs at once"),
}
COMMAND = Subcommands("policy", SUBCOMMANDS, "[NAME] [key=value ...]", "python -m twin policy new my_policy")


def main(words: list[str]) -> int:
    """Runs the subcommand; returns the exit status."""
    return COMMAND.run(words)


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
