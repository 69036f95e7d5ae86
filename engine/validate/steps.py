"""The steps of an engine's run as a latency model sees them, and how far a model is from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from twin.core.batch import Batch, Features
from twin.latency.model import LatencyModel

REGIONS = ("decode", "prefill", "mixed")


class Step(NamedTuple):
    """A step that has been computed."""

    features: Features
    start_s: float
    duration_s: float
    moved: bool = False  # blocks crossed the link or were copied, which no latency model counts

    @property
    def region(self) -> str:
        if not self.features.prefill_tokens:
            return "decode"
        return "mixed" if self.features.decode_tokens else "prefill"


class StepLog:
    """Keeps the steps of a run; an engine's device tells it of each (`EngineDevice.watch`)."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def __call__(self, batch: Batch, start_s: float, end_s: float) -> None:
        assert batch.features is not None
        self.steps.append(Step(batch.features, start_s, end_s - start_s, bool(batch.transfers)))


class StepErrors(NamedTuple):
    """Of a latency model on measured steps; errors relative to the measured duration."""

    region: str  # decode, prefill, mixed or all
    steps: int
    mape: float  # mean of their absolute values
    p90: float  # ... and their 90 % quantile
    bias: float  # all seconds predicted over all measured, less 1


def comparable(steps: Iterable[Step]) -> list[Step]:
    """Those whose duration a model of computing can know."""
    return [step for step in steps if not step.moved and step.duration_s > 0]


def residuals(model: LatencyModel, steps: Sequence[Step]) -> tuple[np.ndarray, np.ndarray]:
    """Predicted seconds [n], and measured over predicted less 1 [n]."""
    predicted_s = np.array([model.step_s(step.features) for step in steps])
    measured_s = np.array([step.duration_s for step in steps])
    return predicted_s, measured_s / predicted_s - 1


def step_errors(model: LatencyModel, steps: Sequence[Step]) -> list[StepErrors]:
    """By region, then of all steps; a region without steps is left out."""
    known = comparable(steps)
    parts = [(region, [step for step in known if step.region == region]) for region in REGIONS]
    return [_errors(region, model, part) for region, part in [*parts, ("all", known)] if part]


def _errors(region: str, model: LatencyModel, steps: Sequence[Step]) -> StepErrors:
    measured_s = np.array([step.duration_s for step in steps])
    predicted_s = np.array([model.step_s(step.features) for step in steps])
    error = np.abs(predicted_s / measured_s - 1)
    bias = float(predicted_s.sum() / measured_s.sum()) - 1
    return StepErrors(region, len(steps), float(error.mean()), float(np.percentile(error, 90)), bias)
