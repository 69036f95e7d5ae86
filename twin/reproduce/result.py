"""What a reproduction says: published figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    """One published figure and ours, in the same unit."""

    what: str
    published: str  # as it was printed, with its unit: a value or a range
    ours: str
    direction: bool | None  # does it go the way that was published; None: a single value has no way
    size: bool  # is it as large, within what the reproduction says counts as alike
    note: str = ""


class Reproduction(NamedTuple):
    """A published result that can be run again: `python -m twin reproduce NAME`. Its options: conf/experiment/NAME.yaml."""

    title: str
    source: str  # authors, venue and year, table or figure
    alike: str  # what counts as the same size, in words
    run: Callable[[dict], Sequence[Figure]]  # given the options of conf/experiment/NAME.yaml
    why: str = ""  # where ours differs: what was found out about the reason
