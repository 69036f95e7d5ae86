"""The column `pauses`: when a request waits for a tool, as text.

20:1.5;60:0.3:40      after 20 output tokens for 1.5 s; after 60 for 0.3 s, and then its answer adds 40 tokens
"""

from __future__ import annotations

import math

Pause = tuple[int, float, int]  # after so many output tokens, seconds, tokens returned


def parse(text: str) -> tuple[Pause, ...]:
    """Raises ValueError for what is no list of pauses; "" is none."""
    pauses: list[Pause] = []
    for part in text.split(";") if text else ():
        try:
            after, seconds, *returned = part.split(":")
            pause = (int(after), float(seconds), int(*returned))
        except (ValueError, TypeError):
            raise ValueError(f"{part!r} is no pause: after_tokens:seconds or after_tokens:seconds:returned_tokens") from None
        before = pauses[-1][0] if pauses else 0
        if pause[0] <= before:
            raise ValueError(f"a pause after {pause[0]} tokens: the first must be at least 1, and they must ascend")
        if not 0 <= pause[1] < math.inf:
            raise ValueError(f"a pause of {pause[1]:g} s: it must be at least 0 s")
        if pause[2] < 0:
            raise ValueError(f"a pause that returns {pause[2]} tokens: they must be at least 0")
        pauses.append(pause)
    return tuple(pauses)
