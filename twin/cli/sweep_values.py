"""The values of a list or range as Hydra reads them, counted before any of them is made."""

from math import ceil, isfinite
from typing import TYPE_CHECKING

from twin.cli.errors import UserError, one_line

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override, RangeSweep


def values_of(word: str, override: "Override", most: int) -> list[str]:
    """Of a list, choice() or range(), each as one would type it. Raises UserError for more than `most`, and for none."""
    from hydra.core.override_parser.types import RangeSweep
    from hydra.errors import HydraException

    value = override.value()
    try:
        count = _length(value) if isinstance(value, RangeSweep) else 0
        if count <= most:
            values = [str(each) for each in override.sweep_string_iterator()]
            count = len(values)
    except (HydraException, ValueError, TypeError) as error:
        raise UserError(f"{word}: {one_line(str(error))}") from error
    if not count:
        raise UserError(f"{word}: there is no value in it")
    if count > most:
        many = f"{count:,}" if count < 10**12 else "more than a trillion"
        raise UserError(f"{word}: {many} values; there may be at most {most:,}")
    return values


def _length(swept: "RangeSweep") -> int:
    """How many numbers there are from start to stop, the end left out. Raises ValueError where that cannot be said."""
    start, stop, step = swept.start, swept.stop, swept.step
    assert start is not None and stop is not None
    if not all(isfinite(number) for number in (start, stop, step)) or step == 0:
        raise ValueError("range(FIRST,END,STEP) needs finite numbers, and a step that is not 0")
    whole = all(isinstance(number, int) for number in (start, stop, step))
    steps = -((start - stop) // step) if whole else (stop - start) / step
    if not isfinite(steps):
        raise ValueError("so many values are no range")
    return max(0, ceil(steps))
