"""A latency model from the steps of runs: what `twin calibrate profile=RUN` makes of their tables, without the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.errors import EngineError
from engine.validate.steps import Step, comparable
from twin.calibrate.calibration import calibrate
from twin.calibrate.steps import RUN, About, Steps
from twin.calibrate.terms import OPTIONAL, Term
from twin.latency.fitted import FittedLatency


def fit_runs(
    runs: Sequence[tuple[str, Sequence[Step]]], about: About, source: str, optional: Sequence[Term] = OPTIONAL
) -> tuple[FittedLatency, dict[str, Any]]:
    """A model of the steps of these runs, (name, steps) each, and the content of its file; `about` the engine.

    `optional`: the terms that it may have beside those of every fit. Raises `EngineError` where they are too few.
    """
    parts = [comparable(steps) for _, steps in runs]
    known = [step for part in parts for step in part]
    if not known:
        raise EngineError("latency: no step has been measured; give more requests")
    table = Steps(
        features=np.array([step.features for step in known], dtype=float),
        seconds=np.array([step.duration_s for step in known]),
        runs=tuple(name for name, _ in runs),
        run=np.repeat(np.arange(len(runs)), [len(part) for part in parts]),
        kind=RUN,
        source=source,
        about=about,
    )
    try:
        made = calibrate(table, optional=optional)
    except ValueError as error:
        raise EngineError(f"latency: {error}; give more requests, or a fitted model: latency.path=FILE") from error
    content = made.content({"model": about.model, "gpu": about.gpu, "source": source})
    return FittedLatency(content), content
