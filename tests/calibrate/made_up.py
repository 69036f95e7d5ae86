"""Steps whose durations follow from a formula, and the files that hold them."""

import csv
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from twin.calibrate.steps import GRID, About, Steps
from twin.core.batch import Features

Truth = Callable[[Features], float]


def truth(step: Features) -> float:
    """12 ms, 20 us a decode, 80 ns a token of its context; 50 us a prefill token, 3 ns a pair, 5 ms if there is any."""
    decode_context = step.context_tokens - step.prefill_context_tokens
    seconds = 0.012 + 20e-6 * step.decode_tokens + 80e-9 * decode_context
    return seconds + 50e-6 * step.prefill_tokens + 3e-9 * step.prefill_attention + (0.005 if step.prefill_tokens else 0.0)


def step(decodes: int = 0, context: int = 0, chunk: int = 0, before: int = 0, prompts: int = 1) -> Features:
    parts = prompts if chunk else 0
    of_prefill = parts * (chunk + before)
    pairs = parts * chunk * (before + chunk / 2)
    return Features(decodes + parts, parts * chunk, decodes, decodes * context + of_prefill, of_prefill, pairs, parts)


def grid() -> list[Features]:
    """Decodes, prefills and both, by factors of two and four."""
    batches, contexts, chunks = (1, 2, 4, 8, 16, 32, 64, 128), (64, 256, 1024, 4096), (16, 64, 256, 1024)
    steps = [step(batch, context) for batch in batches for context in contexts]
    steps += [step(chunk=chunk, before=before) for chunk in chunks for before in (0, 100, 2000)]
    steps += [step(chunk=chunk, prompts=4) for chunk in chunks]
    steps += [step(batch, 512, chunk, before) for batch in batches[::2] for chunk in chunks for before in (0, 1500)]
    return steps


def table(steps: Iterable[Features], seconds: Iterable[float] | Truth = truth, kind: str = GRID, **more: object) -> Steps:
    """The steps with their durations."""
    rows = list(steps)
    durations = [seconds(each) for each in rows] if callable(seconds) else list(seconds)
    defaults = {"runs": ("grid",), "run": np.zeros(len(rows), int), "source": "made up", "about": About()}
    return Steps(np.array(rows, float), np.array(durations), kind=kind, **(defaults | more))


def write_profile(path: Path, steps: Iterable[Features], truth: Truth = truth, **columns: list) -> Path:
    """A CSV file of the columns that every profile has, and others."""
    rows = list(steps)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*Features._fields, "duration_s", *columns])
        for number, each in enumerate(rows):
            writer.writerow([*each, repr(truth(each)), *(values[number] for values in columns.values())])
    return path
