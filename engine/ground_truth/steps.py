"""Steps of several runs: pooled errors, what lies beyond a model's range, and whether the machine itself was as fast."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from engine.validate.steps import REGIONS, Step, StepErrors, comparable
from twin.latency.fitted import FittedLatency
from twin.latency.model import LatencyModel

NEAR = 1.1  # contexts within this factor are of one composition
FEWEST_ALIKE = 20  # steps: fewer say nothing


class Alike(NamedTuple):
    """Decode steps of the same number of sequences and nearly the same context, in two sets of runs."""

    steps: int  # that have their like
    slower: float  # how much longer they took in the second set: 0.03 is 3 %
    error: float  # standard error of that


def alike(first: Iterable[Step], second: Iterable[Step]) -> Alike | None:
    """A change of the machine from one run to the other, which no model of steps can know. None: too few to say.

    Of each composition the medians are compared; the mean of the logarithms of their ratios, weighted by how many steps
    there are, is the answer.
    """
    one, other = _decodes(first), _decodes(second)
    common = sorted(one.keys() & other.keys())
    weights = np.array([min(len(one[key]), len(other[key])) for key in common], dtype=float)
    if weights.sum() < FEWEST_ALIKE or len(common) < 2:
        return None
    ratios = np.array([math.log(float(np.median(other[key]) / np.median(one[key]))) for key in common])
    mean = float(weights @ ratios / weights.sum())
    variance = float(weights @ (ratios - mean) ** 2 / weights.sum())
    error = math.sqrt(variance * float(weights @ weights)) / float(weights.sum())
    return Alike(int(weights.sum()), math.exp(mean) - 1, error)


def _decodes(steps: Iterable[Step]) -> dict[tuple[int, int], list[float]]:
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for step in steps:
        if not step.features.prefill_tokens:
            context = round(math.log(step.features.context_tokens) / math.log(NEAR))
            found[step.features.decode_tokens, context].append(step.duration_s)
    return found


def pooled(pairs: Sequence[tuple[LatencyModel, Sequence[Step]]]) -> list[StepErrors]:
    """By region, then of all: the steps of several runs, each foretold by a model of its own."""
    known = [(model, step) for model, steps in pairs for step in comparable(steps)]
    regions = [step.region for _, step in known]
    measured_s = np.array([step.duration_s for _, step in known])
    predicted_s = np.array([model.step_s(step.features) for model, step in known])
    result = []
    for region in (*REGIONS, "all"):
        rows = np.array([region in (each, "all") for each in regions], dtype=bool)
        if rows.any():
            error = np.abs(predicted_s[rows] / measured_s[rows] - 1)
            bias = float(predicted_s[rows].sum() / measured_s[rows].sum()) - 1
            result.append(StepErrors(region, int(rows.sum()), float(error.mean()), float(np.percentile(error, 90)), bias))
    return result


def outside_range(model: FittedLatency, steps: Sequence[Step]) -> float:
    """Share of the steps that have more or fewer of something than any step that the model was fitted to."""
    known = comparable(steps)
    return sum(_is_outside(model, step) for step in known) / len(known) if known else 0.0


def _is_outside(model: FittedLatency, step: Step) -> bool:
    features = step.features
    derived = {
        "tokens": features.prefill_tokens + features.decode_tokens,
        "decode_context_tokens": features.context_tokens - features.prefill_context_tokens,
    }
    for name, (least, most) in model.ranges().items():
        value = derived[name] if name in derived else getattr(features, name)
        if value and not least <= value <= most:
            return True
    return False
