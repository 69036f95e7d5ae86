"""Interpolation on measured grids."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

Knots = tuple[list[float], list[float]]


def line_at(knots: Knots, x: float) -> tuple[float, float]:
    """Value and slope at x of the piecewise-linear curve through the knots.

    Below the first knot the first piece goes on. Beyond the last knot, and at it, the slope is that over the upper half
    of what was measured: the last piece alone may be all noise.
    """
    xs, ys = knots
    if len(xs) == 1:
        return ys[0], 0.0
    if x >= xs[-1]:
        middle = min(bisect_left(xs, xs[-1] / 2), len(xs) - 2)
        slope = max(0.0, (ys[-1] - ys[middle]) / (xs[-1] - xs[middle]))
        return ys[-1] + slope * (x - xs[-1]), slope
    right = max(bisect_right(xs, x), 1)
    slope = (ys[right] - ys[right - 1]) / (xs[right] - xs[right - 1])
    return ys[right - 1] + slope * (x - xs[right - 1]), slope


def curve(points: Iterable[tuple[float, float]], what: str) -> Knots:
    """Knots from (x, y) pairs in any order; several y at one x become their mean."""
    found: dict[float, list[float]] = {}
    for x, y in points:
        found.setdefault(float(x), []).append(float(y))
    if not found:
        raise ValueError(f"{what}: no rows")
    xs = sorted(found)
    return xs, [sum(found[x]) / len(found[x]) for x in xs]


class Surface:
    """A function of two variables on a ragged grid: a curve over x for each measured row.

    Linear in both, never in the logarithm: what a step costs is a sum of products, and a line through the logarithms of
    such sums is wrong by more than a tenth between the points of a geometric grid (LLMServingSim, pull request 60).
    """

    def __init__(self, points: Iterable[tuple[float, float, float]], what: str) -> None:
        rows: dict[float, list[tuple[float, float]]] = {}
        for row, x, value in points:
            rows.setdefault(float(row), []).append((x, value))
        if not rows:
            raise ValueError(f"{what}: no rows")
        self.rows = sorted(rows)
        self.curves = [curve(rows[row], what) for row in self.rows]
        self.floor = min(min(ys) for _, ys in self.curves)  # outside the grid no line may fall below what was seen

    def row(self, row: float) -> Knots:
        """The curve over x at `row`, between the two measured rows beside it."""
        if len(self.rows) == 1:
            return self.curves[0]
        right = min(max(bisect_right(self.rows, row), 1), len(self.rows) - 1)
        low, high = self.curves[right - 1], self.curves[right]
        weight = (row - self.rows[right - 1]) / (self.rows[right] - self.rows[right - 1])
        if weight == 0:
            return low
        xs = sorted({*low[0], *high[0]})
        return xs, [max(self.floor, blend(low, high, weight, x)) for x in xs]

    def value(self, row: float, x: float) -> float:
        """The function at (row, x), never below the least value measured."""
        return max(self.floor, line_at(self.row(row), x)[0])

    def bounds(self) -> tuple[Sequence[float], Sequence[float]]:
        """(least, most) row and (least, most) x that were measured."""
        xs = [x for knots in self.curves for x in (knots[0][0], knots[0][-1])]
        return (self.rows[0], self.rows[-1]), (min(xs), max(xs))


def blend(low: Knots, high: Knots, weight: float, x: float) -> float:
    """Linear in the row between (or beyond) two curves."""
    return (1 - weight) * line_at(low, x)[0] + weight * line_at(high, x)[0]
