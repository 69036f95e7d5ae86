"""What stands in the pages of docs/: fenced blocks and tables, as a reader sees them."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def page(name: str) -> str:
    """The text of a page."""
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """The bodies of the page's fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)\n```$", page(name), re.MULTILINE | re.DOTALL)
