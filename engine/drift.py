"""Drift: a run's steps begin to take longer, or less long, than the latency model says (throttling, other load).

Steps come in blocks of BLOCK. The median of a block's residuals, measured over predicted less 1, shrugs off single slow
steps; of independent normal residuals of standard deviation s its own is about 1.2533 s / sqrt(BLOCK). On these medians, in
units of that, run two CUSUMs (Page, Biometrika 41, 1954), one for slower and one for faster:

    S = max(0, S + (median - level) / deviation - k),   alarm when S > h

k is half of the shift that is looked for, SHIFT = 10 %: deviations below 5 % never add up. h is Siegmund's (Sequential
Analysis, 1985, section 2.6): on stationary noise of the model's spread the two together raise a false alarm once in
QUIET_BLOCKS blocks on the average (50 million steps). It is never below 2.5 k, so that a shift of 10 % has to last for three
blocks. It is told after about 3 blocks where the spread is up to 10 %, 7 where it is 20 % (`blocks_to_alarm`).
Residuals that depend on those before them make false alarms more frequent; blocks take most of that away, not all.

After an alarm the level is that of the block that raised it and those before it since the shift began, so that each move is
told once, the way back too.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from twin.core.batch import Batch, Features
from twin.latency.model import LatencyModel

BLOCK = 25  # steps
SHIFT = 0.10
QUIET_BLOCKS = 2e6
LEAST_SPREAD = 0.01  # no machine is steadier
LEAST_LASTING = 2.5  # blocks that a shift of SHIFT has to last for
OVERSHOOT = 1.166  # of Siegmund's formula
MOST_TOLD = 5  # moves, of a run that has many


@dataclass(frozen=True)
class Move:
    """The residual has moved."""

    since_s: float  # start of the first step of the blocks that told it
    until_s: float  # end of the last one
    level: float  # median residual in them: 0.1 is 10 % longer than predicted

    def __str__(self) -> str:
        word = "longer" if self.level > 0 else "shorter"
        if abs(self.level) < SHIFT / 2:
            return f"from {self.since_s:,.1f} s on steps take what the latency model says again"
        return f"from {self.since_s:,.1f} s on steps take {abs(self.level):.0%} {word} than the latency model says"


class Drift:
    """Watches one run. `spread` is the relative standard deviation of steps about the model."""

    def __init__(self, model: LatencyModel, spread: float) -> None:
        self.model = model
        self.deviation = 1.2533 * max(spread, LEAST_SPREAD) / math.sqrt(BLOCK)
        self.slack = SHIFT / 2 / self.deviation
        self.threshold = threshold(self.slack)
        self.moves: list[Move] = []
        self.level = 0.0
        self._block: list[float] = []
        self._began_s = 0.0
        self._sides = {+1: _Side(), -1: _Side()}

    def __call__(self, batch: Batch, start_s: float, end_s: float) -> None:
        """A step has landed (`EngineDevice.watch`). What moved blocks took time for that too."""
        assert batch.features is not None
        if not batch.transfers and self._knows(batch.features):
            self.add(start_s, end_s, self.model.step_s(batch.features))

    def add(self, start_s: float, end_s: float, predicted_s: float) -> None:
        """A step, and how long it should have taken."""
        if not self._block:
            self._began_s = start_s
        self._block.append((end_s - start_s) / predicted_s - 1)
        if len(self._block) == BLOCK:
            self._judge(statistics.median(self._block), end_s)
            self._block.clear()

    def _judge(self, median: float, now_s: float) -> None:
        for sign, side in self._sides.items():
            side.add(sign * (median - self.level) / self.deviation - self.slack, median, self._began_s)
            if side.sum > self.threshold:
                self.level = statistics.median(side.medians)
                self.moves.append(Move(side.since_s, now_s, self.level))
                self._sides = {+1: _Side(), -1: _Side()}
                return

    def _knows(self, features: Features) -> bool:
        """Whether the model was fitted to steps like this one: of others its prediction says nothing."""
        values = {
            **features._asdict(),
            "tokens": features.prefill_tokens + features.decode_tokens,
            "decode_context_tokens": features.context_tokens - features.prefill_context_tokens,
        }
        ranges = self.model.ranges().items()
        return all(least <= values[name] <= most for name, (least, most) in ranges if values.get(name))

    def notes(self, steps_file: str) -> list[str]:
        """For the run: each move with its time, and what to do."""
        told = [f"drift: {move}" for move in self.moves[:MOST_TOLD]]
        if len(self.moves) > MOST_TOLD:
            told.append(f"drift: {len(self.moves) - MOST_TOLD} more such moves until {self.moves[-1].until_s:,.1f} s")
        if told:
            told.append(f"drift: python -m twin calibrate profile={steps_file} fits the latency model to this run's steps")
        return told


class _Side:
    """One of the two sums, and the medians since it was last 0."""

    def __init__(self) -> None:
        self.sum, self.since_s = 0.0, 0.0
        self.medians: list[float] = []

    def add(self, amount: float, median: float, began_s: float) -> None:
        if not self.sum:
            self.since_s, self.medians = began_s, []
        self.sum = max(0.0, self.sum + amount)
        self.medians.append(median)


def threshold(slack: float, quiet_blocks: float = QUIET_BLOCKS) -> float:
    """h, in standard deviations of a block's median, for a slack k in the same units.

    Siegmund: one CUSUM of standard normal noise runs for about (exp(2 k b) - 2 k b - 1) / (2 k^2) blocks until a false
    alarm, b = h + 1.166. Two of them run half as long.
    """
    wanted = 2 * quiet_blocks * 2 * slack * slack
    exponent = math.log(wanted)
    for _ in range(50):  # exponent = log(wanted + exponent + 1) converges at once, since wanted is large
        exponent = math.log(wanted + exponent + 1)
    return max(exponent / (2 * slack) - OVERSHOOT, LEAST_LASTING * slack)


def blocks_to_alarm(spread: float, shift: float = SHIFT) -> int:
    """How many blocks until a lasting shift is told, on the average: as many as add up to more than h."""
    deviation = 1.2533 * max(spread, LEAST_SPREAD) / math.sqrt(BLOCK)
    slack = SHIFT / 2 / deviation
    return math.floor(threshold(slack) / (shift / deviation - slack)) + 1
