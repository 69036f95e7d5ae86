"""The terms that a step's duration may be a sum of: those of `twin.latency.fitted`, as columns of a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from twin.calibrate.steps import Steps

KNEES = (
    16,
    32,
    64,
    96,
    128,
    192,
    256,
    384,
    512,
    768,
    1024,
    1536,
    2048,
    4096,
)  # tokens of a step beyond which each costs more
TILES = (64, 128, 256)  # rows of a matrix product that kernels compute together
DIGITS = 4  # that a coefficient is written with


class Term(NamedTuple):
    """A coefficient of the latency file; knees and tiles are at a number of tokens."""

    name: str
    at: int = 0

    def __str__(self) -> str:
        return f"{self.name} at {self.at} tokens" if self.at else self.name


# Every fit has these, as far as its steps speak of them. There is no per_seq_s: sequences = decodes + parts of prompts, so
# that of the three terms one would always be in vain.
BASIC = (
    Term("base_s"),
    Term("per_prefill_token_s"),
    Term("per_decode_token_s"),
    Term("per_decode_context_token_s"),
    Term("per_prefill_context_token_s"),
    Term("per_prefill_attention_s"),
)
# ... and these if they foretell steps better that were held out.
OPTIONAL = (
    Term("mixed_s"),
    Term("per_prefill_seq_s"),
    *(Term("knees", tokens) for tokens in KNEES),
    *(Term("tiles", tokens) for tokens in TILES),
)


def column(term: Term, steps: Steps) -> np.ndarray:
    """What the term's coefficient is multiplied with, step by step."""
    prefill, decodes = steps.column("prefill_tokens"), steps.column("decode_tokens")
    of_prefill = steps.column("prefill_context_tokens")
    tokens = prefill + decodes
    if term.name == "knees":
        return np.maximum(0.0, tokens - term.at)
    if term.name == "tiles":
        return np.ceil(tokens / term.at) * term.at
    columns: dict[str, np.ndarray] = {
        "base_s": np.ones(len(steps)),
        "mixed_s": (prefill > 0).astype(float),
        "per_prefill_token_s": prefill,
        "per_decode_token_s": decodes,
        "per_decode_context_token_s": steps.column("context_tokens") - of_prefill,
        "per_prefill_context_token_s": of_prefill,
        "per_prefill_attention_s": steps.column("prefill_attention"),
        "per_prefill_seq_s": steps.column("prefill_sequences"),
    }
    return columns[term.name]


def matrix(terms: Iterable[Term], steps: Steps) -> np.ndarray:
    """(steps, terms)"""
    return np.stack([column(term, steps) for term in terms], axis=1)


def spoken_of(terms: Iterable[Term], steps: Steps) -> list[Term]:
    """Those of which the steps say anything: the column is not zero throughout."""
    return [term for term in terms if column(term, steps).any()]


def within_range(terms: Iterable[Term], steps: Steps) -> list[Term]:
    """Of knees those that lie between the sizes of the steps, of tiles those that a tenth of the steps goes beyond.

    Were nearly all steps within the first tile, it would be the same as base_s.
    """
    tokens = steps.column("prefill_tokens") + steps.column("decode_tokens")
    usual = float(np.quantile(tokens, 0.9))
    least, most = float(tokens.min()), float(tokens.max()) / 1.5
    return [term for term in terms if not term.at or (term.at < usual if term.name == "tiles" else least < term.at < most)]


def content(values: Mapping[Term, float]) -> dict[str, Any]:
    """coefficients, knees and tiles of a latency file."""
    rounded = {term: float(f"{value:.{DIGITS}g}") for term, value in values.items() if value > 0}
    return {
        "coefficients": {term.name: value for term, value in rounded.items() if not term.at},
        "knees": {term.at: value for term, value in sorted(rounded.items()) if term.name == "knees"},
        "tiles": {term.at: value for term, value in sorted(rounded.items()) if term.name == "tiles"},
    }
