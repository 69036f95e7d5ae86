"""The calibrated model as a file for `latency=fitted latency.path=NAME.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from twin.calibrate.nnls import nnls
from twin.calibrate.requests.basis import COEFFICIENT, PLACE, Basis, FittedTerms, columns

DIGITS = 5
KNEES, TILE = (32, 64, 128, 256, 512, 1024), 256  # tokens of a step, where kernels are put into terms


class Content(NamedTuple):
    """What the file holds, and how far its steps lie from the model's: root mean square, relative."""

    values: dict[str, Any]
    off: float


def content_of(basis: Basis, theta: np.ndarray, features: np.ndarray, about: Mapping[str, Any]) -> Content:
    """The file of these coefficients, fitted on the steps in `features`.

    Kernel tables become terms with knees and a tile, which give the model's own times of those steps as nearly as they can.
    """
    head = {"range": ranges(features), **about}
    if isinstance(basis, FittedTerms):
        pairs = zip(basis.terms, theta, strict=True)
        coefficients = {COEFFICIENT[name]: rounded(value) for name, value in pairs if value > 0}
        return Content({"coefficients": coefficients, **head}, 0.0)
    terms, off = in_terms(features, basis.design(features) @ theta)
    return Content({**terms, **head}, off)


def in_terms(features: np.ndarray, seconds: np.ndarray) -> tuple[dict[str, Any], float]:
    """Coefficients, knees and a tile by non-negative least squares with weights 1 / sqrt(seconds), which has no bias."""
    tokens = features[:, PLACE["prefill_tokens"]] + features[:, PLACE["decode_tokens"]]
    plain = columns(features, tuple(COEFFICIENT))
    bent = [np.maximum(0, tokens - knee) for knee in KNEES]
    matrix = np.column_stack((plain, features[:, PLACE["prefill_context_tokens"]], *bent, np.ceil(tokens / TILE) * TILE))
    values = nnls(matrix / np.sqrt(seconds)[:, None], np.sqrt(seconds))
    names = [*COEFFICIENT.values(), "per_prefill_context_token_s"]
    coefficients = {name: rounded(value) for name, value in zip(names, values, strict=False) if value > 0}
    knees = {knee: rounded(value) for knee, value in zip(KNEES, values[len(names) :], strict=False) if value > 0}
    tiles = {TILE: rounded(values[-1])} if values[-1] > 0 else {}
    off = float(np.sqrt(np.mean((matrix @ values / seconds - 1) ** 2)))
    return {"coefficients": coefficients, "knees": knees, "tiles": tiles}, off


def ranges(features: np.ndarray) -> dict[str, list[int]]:
    """[least, most] of what the steps were made of."""
    prefill, sequences = features[:, PLACE["prefill_tokens"]], features[:, PLACE["sequences"]]
    context = (features[:, PLACE["context_tokens"]] - features[:, PLACE["prefill_context_tokens"]])[prefill == 0]
    seen = {"sequences": sequences, "prefill_tokens": prefill[prefill > 0], "decode_context_tokens": context}
    return {name: [int(some.min()), int(some.max())] for name, some in seen.items() if len(some)}


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
