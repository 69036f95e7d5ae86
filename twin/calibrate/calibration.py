"""Steps -> a latency file's content, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twin.calibrate.conditioning import condition_number, doubts
from twin.calibrate.fit import Fit, Prior, basic_terms, check_enough, fit, left_out, weighted
from twin.calibrate.holdout import blocks, folds, named
from twin.calibrate.judge import Judgement, Region
from twin.calibrate.link import Link, fit_link
from twin.calibrate.nnls import nnls
from twin.calibrate.steps import GRID, Steps
from twin.calibrate.terms import OPTIONAL, Term, content
from twin.latency.fitted import COEFFICIENTS

HOST_FULL = "host_full_sequences"
ADDABLE = ("host_s", "mixed_s", "per_prefill_token_s", "per_decode_token_s", HOST_FULL)


@dataclass(frozen=True)
class Calibration:
    """A fit to all steps (or to those that no holdout= names), and predictions of steps by fits that had not seen them."""

    fit: Fit
    steps: Steps
    judgement: Judgement
    host_s: float  # of base_s, what the host adds to each step; 0 if it was not measured
    link: Link | None
    held_out: str  # in words
    doubts: list[str]
    condition: float
    added: Mapping[str, float]  # to the coefficients, taken from elsewhere

    def content(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """The latency file; `about` is model, gpu, source and what else its user should know."""
        made = content(self.fit.values)
        found = made["coefficients"]
        if self.host_s > 0:
            found["host_s"] = float(f"{self.host_s:.4g}")
            found["base_s"] = max(0.0, float(f"{found['base_s'] - self.host_s:.4g}"))
        for name, value in self.added.items():
            if name != HOST_FULL:
                found[name] = float(f"{found.get(name, 0.0) + value:.4g}")
        made["coefficients"] = {name: found[name] for name in COEFFICIENTS if name in found}
        if HOST_FULL in self.added:
            made[HOST_FULL] = self.added[HOST_FULL]
        if self.link is not None:
            made["swap"] = {"per_copy_s": float(f"{self.link.per_copy_s:.4g}")}
            if self.link.bandwidth_gib_s is not None:
                made["swap"]["bandwidth_gib_s"] = float(f"{self.link.bandwidth_gib_s:.4g}")
        return {
            **about,
            **made,
            "spread": round(self.judgement.spread, 4),
            "range": ranges(self.steps),
            "error": {name: in_percent(region) for name, region in self.judgement.regions().items()},
        }


def calibrate(
    steps: Steps,
    holdout: Sequence[str] = (),
    prior: Prior | None = None,
    added: Mapping[str, float] | None = None,
    optional: Sequence[Term] = OPTIONAL,
) -> Calibration:
    """Fits, and foretells what is held out: the runs named, or in turn every block by a fit to the others.

    Raises ValueError where the steps are too few for the terms, and for runs that are not there.
    """
    predicted_s = np.full(len(steps), np.nan)
    fitted = fit(steps, prior, optional)
    if holdout:
        mask = named(steps, holdout)
        fitted = fit(steps.chosen(~mask), prior, optional)
        predicted_s[mask] = fitted.seconds(steps.chosen(mask))
        words = f"runs held out whole: {', '.join(holdout)}"
        known = steps.chosen(~mask)
    else:
        masks = folds(blocks(steps))
        for mask in masks:
            left = steps.chosen(~mask)
            check_enough(left, basic_terms(steps), f"left when {int(mask.sum())} are held out ")
            predicted_s[mask] = fit(left, prior, optional).seconds(steps.chosen(mask))
        what = "cells of the grid" if steps.kind == GRID else "runs" if len(steps.runs) > 1 else "tenths of the run"
        words = f"each step foretold by a fit to the others: {len(masks)} parts of whole {what}"
        known = steps
    rows = weighted(known, fitted.terms)[0]
    return Calibration(
        fit=fitted,
        steps=steps,
        judgement=Judgement(steps, predicted_s),
        host_s=host_share(known, fitted),
        link=None if steps.swaps is None else fit_link(steps.swaps),
        held_out=words,
        doubts=[*doubts(rows, [str(term) for term in fitted.terms]), *left_out(known)],
        condition=condition_number(rows),
        added=added or {},
    )


def host_share(steps: Steps, fitted: Fit) -> float:
    """Of base_s, seconds that the host adds to every step, where both were measured: the constant of
    host = constant + per sequence * sequences."""
    if steps.host_s is None:
        return 0.0
    weight = 1 / np.sqrt(steps.seconds)
    rows = np.stack([np.ones(len(steps)), steps.column("sequences")], axis=1) * weight[:, None]
    constant = float(nnls(rows, steps.host_s * weight)[0])
    return min(constant, fitted.values.get(Term("base_s"), 0.0))


def ranges(steps: Steps) -> dict[str, list[int]]:
    """What was measured, by the names of a latency file's range."""
    prefill, decodes = steps.column("prefill_tokens"), steps.column("decode_tokens")
    columns = {
        "sequences": steps.column("sequences"),
        "tokens": prefill + decodes,
        "prefill_tokens": prefill,
        "decode_context_tokens": steps.column("context_tokens") - steps.column("prefill_context_tokens"),
    }
    return {
        name: [int(column[column > 0].min()), int(column.max())] for name, column in columns.items() if (column > 0).any()
    }


def in_percent(region: Region) -> dict[str, float]:
    return {
        "mape": round(100 * region.mape, 2),
        "bias": round(100 * region.bias, 2),
        "p90": round(100 * region.p90, 2),
        "steps": region.steps,
    }
