"""What a step's duration is a sum of: the terms that a log can tell apart, alone or on top of measured kernels."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from twin.calibrate.requests.served import COLUMNS
from twin.core.batch import Features
from twin.latency.fitted import FittedLatency
from twin.latency.model import LatencyModel
from twin.latency.piecewise import PiecewiseLatency, Segment
from twin.latency.table import KernelTables, TableLatency

PLACE = {name: place for place, name in enumerate(COLUMNS)}
COEFFICIENT = {  # of twin.latency.fitted, by the short name of the term
    "constant": "base_s",
    "mixed": "mixed_s",
    "prefill": "per_prefill_token_s",
    "decode": "per_decode_token_s",
    "context": "per_decode_context_token_s",
    "attention": "per_prefill_attention_s",
}


class Basis(Protocol):
    """A step takes design @ theta seconds: theta (terms,), none below zero."""

    @property
    def terms(self) -> tuple[str, ...]: ...

    def design(self, features: np.ndarray) -> np.ndarray:
        """(steps, len(COLUMNS)) -> (steps, terms)"""

    def latency(self, theta: np.ndarray) -> LatencyModel: ...


def columns(features: np.ndarray, terms: tuple[str, ...]) -> np.ndarray:
    """(steps, terms): what each term's coefficient is multiplied with."""
    of = {name: features[:, place] for name, place in PLACE.items()}
    known = {
        "constant": np.ones(len(features)),
        "mixed": of["prefill_tokens"] > 0,
        "prefill": of["prefill_tokens"],
        "decode": of["decode_tokens"],
        "context": of["context_tokens"] - of["prefill_context_tokens"],
        "attention": of["prefill_attention"],
    }
    return np.stack([np.asarray(known[name], float) for name in terms], axis=1)


class FittedTerms:
    """The terms of `latency=fitted` alone."""

    terms = tuple(COEFFICIENT)

    def design(self, features: np.ndarray) -> np.ndarray:
        return columns(features, self.terms)

    def latency(self, theta: np.ndarray) -> FittedLatency:
        coefficients = {COEFFICIENT[name]: float(value) for name, value in zip(self.terms, theta, strict=True)}
        return FittedLatency({"coefficients": coefficients, "range": {}, "source": ""})


class KernelTerms:
    """Measured kernels times a scale, and what they leave out: the host, mixed steps, communication a token."""

    terms = ("scale", "constant", "mixed", "prefill", "decode")

    def __init__(self, tables: KernelTables) -> None:
        self.kernels = TableLatency(tables)
        self._seconds: dict[tuple[float, ...], float] = {}  # steps come again from one simulation to the next

    def design(self, features: np.ndarray) -> np.ndarray:
        kernels = np.array([self._kernel_s(tuple(row)) for row in features.tolist()])
        return np.column_stack((kernels, columns(features, self.terms[1:])))

    def _kernel_s(self, row: tuple[float, ...]) -> float:
        known = self._seconds.get(row)
        if known is None:
            sequences, prefill, decode, context, of_prefill, attention, parts = row
            of_all = (int(sequences), int(prefill), int(decode), int(context))
            known = self.kernels.step_s(Features(*of_all, int(of_prefill), attention, int(parts)))
            self._seconds[row] = known
        return known

    def latency(self, theta: np.ndarray) -> LatencyModel:
        return ScaledKernels(self.kernels, **dict(zip(self.terms, map(float, theta), strict=True)))


class ScaledKernels(PiecewiseLatency):
    """step = scale * kernels + constant + mixed (with prefill) + prefill * its tokens + decode * its tokens."""

    name = "table"

    def __init__(
        self, kernels: TableLatency, scale: float, constant: float, mixed: float, prefill: float, decode: float
    ) -> None:
        super().__init__()
        self.kernels, self.scale, self.constant, self.mixed = kernels, scale, constant, mixed
        self.per_prefill_token_s, self.per_decode_token_s = prefill, decode

    def decode_segments(self, sequences: int) -> list[Segment]:
        more = self.constant + self.per_decode_token_s * sequences
        return [
            Segment(below, self.scale * fixed_s + more, self.scale * per_token_s)
            for below, fixed_s, per_token_s in self.kernels.segments(sequences)
        ]

    def mixed_step_s(self, features: Features) -> float:
        return (
            self.scale * self.kernels.mixed_step_s(features)
            + self.constant
            + self.mixed
            + self.per_prefill_token_s * features.prefill_tokens
            + self.per_decode_token_s * features.decode_tokens
        )
