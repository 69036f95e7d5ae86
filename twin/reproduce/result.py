"""What a reproduction says: published figures beside ours, and whether they agree."""

from collections.abc import Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    """One published figure and ours, in the same unit."""

    what: str
    published: str  # as it was printed, with its unit: a value or a range
    ours: str
    direction: bool | None  # does it go the way that was published; None: a single value has no way
    size: bool | None  # is it as large, by the experiment's rule of what is alike; None: no size was published


def near(ours: float, published: float, share: float) -> bool:
    """Whether `ours` is within this share of the published value, to either side: 0.2 is from 80 to 120 % of it."""
    return abs(ours - published) <= share * abs(published)


def within(ours: float, published: Sequence[float], share: float = 0.0) -> bool:
    """Whether `ours` lies in the published range of two ends, each moved outward by this share of itself."""
    least, most = published
    return least - share * abs(least) <= ours <= most + share * abs(most)


def verdict(figures: Sequence[Figure]) -> str:
    """One line over all figures: in how many the direction holds, and the size."""
    ways = [figure.direction for figure in figures if figure.direction is not None]
    sizes = [figure.size for figure in figures if figure.size is not None]
    parts = [f"{name} of {sum(held)} of {len(held)}" for name, held in (("direction", ways), ("size", sizes)) if held]
    return "agrees in " + ", ".join(parts)


def holds(figures: Sequence[Figure]) -> bool:
    """Whether every figure goes the way that was published; single values count by their size."""
    return all(figure.size is not False if figure.direction is None else figure.direction for figure in figures)
