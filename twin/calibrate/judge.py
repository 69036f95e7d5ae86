"""How wrong a fit is, where it was not fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twin.calibrate.steps import Steps

SATURATED = 0.9  # of the most sequences or tokens that any step had: as full as steps get


class Region(NamedTuple):
    """Relative errors (predicted / measured - 1) of some held-out steps; shares, not percent."""

    mape: float  # mean of the absolute errors
    bias: float  # mean of the errors: above 0, the model is too slow
    p90: float  # of the absolute errors
    steps: int


@dataclass(frozen=True)
class Judgement:
    """Held-out predictions of all steps; nan for those that no fit was asked for."""

    steps: Steps
    predicted_s: np.ndarray

    @property
    def known(self) -> np.ndarray:
        return ~np.isnan(self.predicted_s)

    @property
    def error(self) -> np.ndarray:
        """(rows,) relative"""
        return self.predicted_s / self.steps.seconds - 1

    @property
    def spread(self) -> float:
        """Relative standard deviation of measured steps about what was predicted: what step noise is drawn from."""
        told = self.predicted_s > 0  # and not nan
        return float(np.std(self.steps.seconds[told] / self.predicted_s[told]))

    def regions(self) -> dict[str, Region]:
        """By what a step holds, and once more those that are about as full as steps get; only regions with steps."""
        masks = region_masks(self.steps)
        found = {}
        for name, mask in (*masks.items(), ("all", np.ones(len(self.steps), bool))):
            error = self.error[mask & self.known]
            if len(error):
                size = np.abs(error)
                found[name] = Region(float(size.mean()), float(error.mean()), float(np.quantile(size, 0.9)), len(error))
        return found

    def worst(self, count: int = 10) -> list[int]:
        """Rows with the largest relative errors, one for each different step."""
        order = np.argsort(-np.abs(np.where(self.known, self.error, 0.0)), kind="stable")
        seen: dict[tuple[float, ...], int] = {}
        for row in order[: 50 * count]:
            seen.setdefault(tuple(self.steps.features[row]), int(row))
        return list(seen.values())[:count]


def region_masks(steps: Steps) -> dict[str, np.ndarray]:
    """decode, prefill and mixed are all steps, each once; saturated ones are among them."""
    prefill, decodes = steps.column("prefill_tokens") > 0, steps.column("decode_tokens") > 0
    sequences, tokens = steps.column("sequences"), steps.column("prefill_tokens") + steps.column("decode_tokens")
    most_sequences = steps.about.max_num_seqs or sequences.max()
    most_tokens = steps.about.max_num_batched_tokens or tokens.max()
    return {
        "decode": ~prefill,
        "prefill": prefill & ~decodes,
        "mixed": prefill & decodes,
        "saturated": (sequences >= SATURATED * most_sequences) | (tokens >= SATURATED * most_tokens),
    }
