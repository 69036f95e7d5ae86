"""A command that has subcommands: which there are, the help of each, and the call of the one that is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from twin.cli.errors import UserError
from twin.nearest import nearest


@dataclass(frozen=True)
class Subcommands:
    """Those of `twin COMMAND`: each is a module with the text `HELP` and the function `main(words)`."""

    command: str
    modules: Mapping[str, tuple[str, str]]  # name: (module, what it does)
    arguments: str  # of them all, for the line of usage
    example: str

    def run(self, words: list[str]) -> int:
        """Runs the one that the first word names; returns the exit status."""
        name = words[0] if words else None
        if name in ("--help", "-h"):
            print(self.overview())
            return 0
        if name is None or name not in self.modules:
            what = "no subcommand" if name is None else f"there is no {self.command} {name}{nearest(name, self.modules)}"
            raise UserError(f"{what}; there are {', '.join(self.modules)}")
        module = import_module(self.modules[name][0])
        if "--help" in words or "-h" in words:
            print(module.HELP, end="")
            return 0
        return int(module.main(words[1:]))

    def overview(self) -> str:
        """What `twin COMMAND --help` prints."""
        width = max(map(len, self.modules))
        return "\n".join(
            [
                f"usage: python -m twin {self.command} <subcommand> {self.arguments}",
                "",
                *(f"  {name:<{width}}  {what}" for name, (_, what) in self.modules.items()),
                "",
                f"python -m twin {self.command} <subcommand> --help shows its options",
                f"example: {self.example}",
            ]
        )
