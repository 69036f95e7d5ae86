"""Runs published results again and keeps what came of them in docs/reproductions.md.

    python bench/reproductions.py [NAME ...]

Replaces the sections of these results (all, if none is named) by what `python -m twin reproduce NAME --json` gives now.
"""

import argparse
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from twin.reproduce.experiment import names
from twin.results.atomic import writing

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reproductions.md"
TIMEOUT_S = 1800
WORDS = {None: "", True: "same", False: "**differs**"}


def main() -> None:
    """The page up to its first section stays as it is; a section that no result has any more goes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="all, if none is named")
    chosen = parser.parse_args().names or names()
    head, *sections = PAGE.read_text(encoding="utf-8").split("\n## ")
    kept = {section.split("\n", 1)[0]: section for section in sections}
    for name in chosen:
        print(name, flush=True)
        kept[name] = _section(name)
    parts = [head.rstrip() + "\n", *(kept[name].rstrip() + "\n" for name in names() if name in kept)]
    with writing(PAGE) as file:
        file.write("\n## ".join(parts).encode())


def _section(name: str) -> str:
    words = [sys.executable, "-m", "twin", "reproduce", name, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"{name}: {done.stderr.strip()}")
    return as_markdown(json.loads(done.stdout))


def as_markdown(result: dict[str, Any]) -> str:
    """The section of one result, without the `## ` of its heading."""
    rows = [
        f"| {each['what']} | {each['published']} | {each['ours']} | {WORDS[each['direction']]} | {WORDS[each['size']]} |"
        for each in result["figures"]
    ]
    table = ["| | published | ours | direction | size |", "|---|---|---|---|---|", *rows]
    told = [f"{_sentence(result['verdict'])} Alike: {_sentence(result['alike'])}"]
    if result["why"]:
        told.append(f"Why ours differs: {_sentence(result['why'])}")
    paragraphs = [result["name"], f"{_sentence(result['title'])} Published by: {result['source']}."]
    wrapped = [textwrap.fill(text, 125, break_long_words=False, break_on_hyphens=False) for text in told]
    return "\n\n".join([*paragraphs, "\n".join(table), *wrapped]) + "\n"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:].rstrip(".") + "."


if __name__ == "__main__":
    main()
