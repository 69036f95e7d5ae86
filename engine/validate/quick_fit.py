"""A latency model from the steps of a run, in a few lines: non-negative least squares over the features of a step.

Steps are weighted by 1/sqrt(duration): with equal weights heavy steps alone would decide, with purely relative ones light
steps, and heavy ones would come out too short. The weights are taken from the fit, not from what was measured: a step that
happened to be short would weigh more than the same one when it was long, and the fit would lie below their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.errors import EngineError
from engine.validate.steps import Step, comparable, residuals
from twin.core.batch import Features
from twin.latency.fitted import FittedLatency

TERMS = (
    "base_s", "mixed_s", "per_seq_s", "per_prefill_token_s", "per_decode_context_token_s", "per_prefill_context_token_s",
    "per_prefill_attention_s", "per_prefill_seq_s",
)  # fmt: skip
ROUNDS = 4  # of weights from the fit before
RANGES = ("sequences", "prefill_tokens", "decode_tokens", "context_tokens")


def fit_steps(steps: Sequence[Step], **about: str) -> FittedLatency:
    """A model of these steps. `about`: its `model`, `gpu` and `source`. Raises `EngineError` where they are too few."""
    known = comparable(steps)
    if len(known) < 2 * len(TERMS):
        raise EngineError(f"latency: {len(known)} steps are too few to fit {len(TERMS)} terms to; give more requests")
    terms = np.array([_terms(step.features) for step in known])
    durations_s = np.array([step.duration_s for step in known])
    seconds = _weighted_fit(terms, durations_s)
    features = np.array([step.features for step in known])
    content: dict[str, Any] = {
        "source": about.pop("source", "steps of an engine's run"),
        **about,
        "coefficients": {name: float(value) for name, value in zip(TERMS, seconds, strict=True) if value},
        "range": {name: _range(features[:, Features._fields.index(name)]) for name in RANGES},
    }
    _, off = residuals(FittedLatency(content), known)
    return FittedLatency(content | {"spread": float(off.std())})


def content_of(model: FittedLatency) -> dict[str, Any]:
    """What a file of this model holds, for `latency=fitted latency.path=FILE`."""
    about = model.describe()
    del about["name"]
    about["range"] = {name: [int(bound) for bound in bounds] for name, bounds in about["range"].items()}
    return about


def _terms(features: Features) -> tuple[float, ...]:
    """Of one step, in the order of TERMS."""
    return (
        1.0, float(features.prefill_tokens > 0), features.sequences, features.prefill_tokens,
        features.context_tokens - features.prefill_context_tokens, features.prefill_context_tokens,
        features.prefill_attention, features.prefill_sequences,
    )  # fmt: skip


def _range(values: np.ndarray) -> list[int]:
    present = values[values > 0]
    return [int(present.min()), int(present.max())] if len(present) else [0, 0]


def _weighted_fit(terms: np.ndarray, durations_s: np.ndarray) -> np.ndarray:
    """terms [n, k], durations [n] -> seconds a term [k]."""
    expected_s = np.full(len(durations_s), durations_s.mean())
    seconds = np.zeros(terms.shape[1])
    for _ in range(ROUNDS):
        weights = 1 / np.sqrt(expected_s)
        seconds = non_negative(terms * weights[:, None], durations_s * weights)
        expected_s = np.maximum(terms @ seconds, 0.01 * durations_s.mean())
    return seconds


def non_negative(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """argmin |matrix @ x - target|, x >= 0: the active-set method of Lawson and Hanson (1974, chapter 23).

    matrix [n, k], of whose columns some may be 0 or multiples of others; target [n].
    """
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1.0
    scaled = matrix / scale
    solution = np.zeros(matrix.shape[1])
    free = np.zeros(matrix.shape[1], dtype=bool)
    enough = 1e-10 * max(1e-300, float(np.linalg.norm(target)))
    for _ in range(3 * matrix.shape[1]):
        gain = scaled.T @ (target - scaled @ solution)
        gain[free] = -np.inf
        if gain.max(initial=-np.inf) <= enough:
            break
        free[gain.argmax()] = True
        while (best := _least_squares(scaled, target, free))[free].min(initial=1.0) <= 0:
            below = free & (best <= 0)
            towards = np.maximum(solution[below] - best[below], 1e-300)
            solution += (solution[below] / towards).min() * (best - solution)
            free &= solution > 1e-14
            solution[~free] = 0.0
        solution = best
    return solution / scale


def _least_squares(matrix: np.ndarray, target: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The columns that are not free have 0."""
    best = np.zeros(matrix.shape[1])
    best[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
    return best
