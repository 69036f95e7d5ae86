"""Prints the commands of README.md that set the project up and test it: those in the fences marked `<!-- ci: NAME -->`.

usage: python .ci/readme_commands.py README.md NAME     (NAME is run or test)
"""

import re
import sys
from pathlib import Path

MARKED = re.compile(r"^<!-- ci: (\w+) -->\n```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(text: str) -> dict[str, str]:
    """The marked commands by name; raises ValueError where one is not exactly one line, or is marked twice."""
    found: dict[str, str] = {}
    for name, body in MARKED.findall(text):
        lines = body.splitlines()
        if len(lines) != 1 or name in found:
            raise ValueError(f"the README must hold one command of one line marked `ci: {name}`, not {lines}")
        found[name] = lines[0]
    return found


if __name__ == "__main__":
    print(commands(Path(sys.argv[1]).read_text(encoding="utf-8"))[sys.argv[2]])
