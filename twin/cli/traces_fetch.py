"""`twin traces fetch NAME`: a public trace into the cache."""

import sys

from twin.cli.errors import UserError
from twin.cli.traces_words import parsed, take
from twin.nearest import nearest

HELP = """usage: python -m twin traces fetch NAME [key=value ...]

Downloads a public trace from its published address into $XDG_CACHE_HOME/twin/traces (~/.cache/twin/traces), checks
size and SHA-256 where they are known, and prints the file's path. A download that was cut off is resumed.
`twin traces list` shows names and licences.

options
  url=ADDRESS     a mirror; the checks stay
  timeout_s=30    how long to wait for the server's next byte
  most_s=21600    how long the whole may take
  folder=FOLDER   where to keep it instead

example: python -m twin traces fetch azure2023_conv
"""


def main(words: list[str]) -> int:
    """Downloads; 1 when that fails. The path alone goes to stdout, all else to stderr."""
    from pathlib import Path

    from traces.catalogue import PUBLIC
    from traces.fetch import FetchError, cache_folder, fetch

    (name,), options = parsed(words, "NAME")
    given = take(options, {"url": None, "timeout_s": 30.0, "most_s": 21600.0, "folder": None})
    for option in options:
        raise UserError(f"{option}: no such option{nearest(option, given)}; there are {', '.join(given)}")
    if name not in PUBLIC:
        raise UserError(f"{name}: no public trace of this name{nearest(name, PUBLIC)}; there are {', '.join(PUBLIC)}")
    if not (given["timeout_s"] and given["most_s"]):
        raise UserError("timeout_s and most_s must be more than 0 seconds")
    trace = PUBLIC[name]
    folder = cache_folder() if given["folder"] is None else Path(str(given["folder"]))
    print(f"{trace.about}; {trace.licence}; cite: {trace.cite}", file=sys.stderr)
    try:
        place = fetch(
            trace,
            folder,
            None if given["url"] is None else str(given["url"]),
            given["timeout_s"],
            given["most_s"],
            progress if sys.stderr.isatty() else None,
        )
    except FetchError as error:
        print(f"twin traces fetch: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        raise UserError(str(error)) from error
    print(place)
    return 0


def progress(have: int, whole: int | None) -> None:
    """One line that is written over."""
    share = "" if not whole else f" of {whole / 1e6:.1f}"
    end = "\n" if have == whole else "\r"
    print(f"  {have / 1e6:.1f}{share} MB", end=end, file=sys.stderr, flush=True)
