"""The name that was probably meant, for errors that name the right one."""

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str], prefix: str = "") -> str:
    """`; did you mean PREFIX+X?` with the closest of `names`, or nothing when none is close."""
    from difflib import get_close_matches  # only an error needs it

    close = get_close_matches(name, list(names), n=1)
    return f"; did you mean {prefix}{close[0]}?" if close else ""
