"""`twin traces list`: what there is."""

from collections.abc import Iterable

from twin.cli.errors import UserError

HELP = """usage: python -m twin traces list

Shows the built-in traces, the file formats that are read, and the public traces that can be fetched, with licences.

example: python -m twin traces list
"""


def main(words: list[str]) -> int:
    """Prints three tables."""
    from traces.catalogue import PUBLIC
    from traces.fetch import cache_folder
    from traces.generators import GENERATORS
    from traces.readers import READERS
    from traces.sources import SOURCES

    if words:
        raise UserError(f"{words[0]}: traces list takes no words")
    built_in = []
    for name, module in GENERATORS.items():
        about = " ".join((module.__doc__ or "").split()).partition(". ")[0].rstrip(".")
        fitted = f" [fitted to: {SOURCES[name].title}]" if name in SOURCES else ""
        built_in.append((name, about + fitted))
    built_in.append(("mix", "several traces as one, each with its weight: trace.parts"))
    print("built in (trace=NAME)")
    show(built_in)
    print("\nfile formats (trace=file trace.path=FILE; found by content, or trace.format=NAME)")
    show((reader.format, reader.about) for reader in READERS.values())
    print(f"\npublic traces (twin traces fetch NAME, into {cache_folder()})")
    show((name, f"{trace.about}; {size_of(trace.size)}{trace.licence}; {trace.cite}") for name, trace in PUBLIC.items())
    return 0


def size_of(size: int | None) -> str:
    """A size in words, with what separates it from the next."""
    return "" if size is None else f"{size / 1e6:.1f} MB; "


def show(rows: Iterable[tuple[str, str]]) -> None:
    """Two columns."""
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    for name, about in rows:
        print(f"  {name:<{width}}  {about}")
