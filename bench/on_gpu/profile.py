"""The profile grid, to which a latency model is fitted: `engine profile` itself, with a budget of time."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from bench.on_gpu.budget import Deadline
from bench.on_gpu.items import Item, Note, Part
from bench.on_gpu.options import fitting_model
from bench.on_gpu.setup import Setup
from engine.cli import profile
from engine.errors import EngineError
from twin.cli import signals

FILE = "profile.csv"
SHARE = 0.45  # of the section's time: the model is loaded before, graphs are recorded on the way, the last round may overrun


def parts(setup: Setup) -> dict[str, Part]:
    return {"profile": measure}


def measure(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    """Writes the profile's own table; an interruption saves what has been measured until then."""
    words, notes = fitting_model(setup)
    yield from (Note(f"profile: {note}") for note in notes)
    path = setup.folder / FILE
    asked = [
        *words, *setup.profile, f"engine.device={setup.device}", f"profile.to={path}",
        f"profile.budget_s={SHARE * max(deadline.left_s(), 1.0):.1f}", f"profile.repeats={setup.repeats}",
    ]  # fmt: skip
    with signals.interruptible():
        status = profile.main(asked)
    if not path.exists():
        raise EngineError(f"engine profile ended with status {status} and wrote nothing")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    contaminated = sum(row["contaminated"] == "True" for row in rows)
    points = len({row["point"] for row in rows})
    yield Note(f"profile: {len(rows)} rows of {points} points, {contaminated} rows contaminated, in {FILE}")
    if status:
        yield Note(f"profile: it was cut short (status {status}) and kept what it had")
