"""A failing scenario as a file that `twin scenario` plays: YAML, a line a section, a line a request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from twin.results.atomic import writing


def scenario_text(content: dict[str, Any], why: str) -> str:
    """The file; `why` is told in a comment at its top."""
    lines = [f"# {' '.join(why.split())}"]
    lines += [f"{name}: {_in_a_line(value)}" for name, value in content.items() if name != "requests"]
    lines += ["requests:", *(f"  - {_in_a_line(row)}" for row in content["requests"])]
    return "\n".join(lines) + "\n"


def _in_a_line(value: Any) -> str:
    import yaml

    text = str(yaml.safe_dump(value, default_flow_style=True, width=10**9, sort_keys=False))
    return text.removesuffix("...\n").rstrip("\n")


def write(folder: Path, scenario: str, content: dict[str, Any], why: str) -> Path:
    """Writes it under a name made of the scenario's; raises OSError."""
    path = folder / f"{re.sub('[^a-z0-9]+', '-', scenario.lower()).strip('-')}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    with writing(path) as file:
        file.write(scenario_text(content, why).encode(errors="backslashreplace"))
    return path
