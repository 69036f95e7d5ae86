"""The catalogue of policies as a Markdown page, made from their docstrings."""

import re
from itertools import groupby
from operator import attrgetter

from twin.cli.policy_catalogue import Entry

HEAD = """# The policies that ship

Made from the docstrings by `python -m twin policy list format=markdown`; how to write one of your own is in
[policies.md](policies.md).
"""
ITEM = re.compile(r"(?P<indent> +)(?P<name>\w+): (?P<text>.*)")


def catalogue(listed: list[Entry]) -> str:
    """The page: a table of all, then each in full."""
    parts = [HEAD]
    families = [(family, list(members)) for family, members in groupby(listed, key=attrgetter("family"))]
    for family, members in families:
        rows = [
            f"| [`{one.name}`](#{one.name}) | {_cell(one.summary)} | {', '.join(one.decides) or 'nothing'} |"
            for one in members
        ]
        parts.append(
            "\n".join([f"**{_capital(family)}**\n", "| policy | what it does | decides |", "|---|---|---|", *rows]) + "\n"
        )
    for family, members in families:
        parts.append(f"## {_capital(family)}\n")
        parts += [_section(entry) for entry in members]
    return "\n".join(parts)


def _section(entry: Entry) -> str:
    if entry.error:
        return f"### {entry.name}\n\n{_escaped(entry.error)}\n"
    needs = ["It cannot do without a prediction of output lengths (`predictor=`)."] if entry.needs_prediction else []
    body, _, parameters = entry.description.partition("\nParameters:\n")
    return "\n".join(
        [f"### {entry.name}\n", *_prose(body.strip()), "", *needs, *[""] * bool(needs), *_parameters(entry, parameters)]
    )


def _prose(text: str) -> list[str]:
    """Paragraphs and lists as they are; a list has a blank line before it. Lines further in after a blank one are code."""
    lines: list[str] = []
    code = False
    for line in text.split("\n"):
        if line.startswith("- ") and lines and lines[-1] and not lines[-1].startswith(("- ", "  ")):
            lines.append("")
        code = line.startswith("    ") and (code or not lines or not lines[-1]) or code and not line
        lines.append(line if code else _escaped(line))
    return lines


def _parameters(entry: Entry, text: str) -> list[str]:
    """The parameters with types, defaults, and what the docstring says of each."""
    about: dict[str, str] = {}
    name = ""
    for line in text.split("\n"):
        match = ITEM.fullmatch(line)
        if match and len(match["indent"]) == 4:
            name = match["name"]
            about[name] = match["text"]
        elif match:
            about[name] = f"{about.get(name, '')}\n  - `{match['name']}`: {match['text']}"
        elif line.strip():
            about[name] = f"{about.get(name, '')} {line.strip()}"
    lines = []
    for name, type_text, default in entry.parameters:
        given = f"{type_text}, default {default}" if default else f"{type_text}, must be given"
        lines.append(f"- `{name}` ({given}): {_escaped(about.get(name, '')).strip()}".rstrip(": "))
    return ["Parameters:", "", *lines, ""] if lines else []


def _escaped(text: str) -> str:
    """No HTML by accident: `<` outside of code."""
    parts = text.split("`")
    return "`".join(part if place % 2 else part.replace("<", "&lt;") for place, part in enumerate(parts))


def _cell(text: str) -> str:
    return _escaped(text).replace("|", "\\|")


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
