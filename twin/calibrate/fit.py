"""Coefficients from measured steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twin.calibrate.conditioning import duplicates
from twin.calibrate.holdout import blocks, cells, folds
from twin.calibrate.nnls import nnls, triangle
from twin.calibrate.steps import RUN, Steps
from twin.calibrate.terms import BASIC, OPTIONAL, Term, matrix, spoken_of, within_range

STEPS_A_TERM = 2  # different ones, at the least
WORTH_A_TERM = 0.01  # of the held-out error that some terms more must take away


@dataclass(frozen=True)
class Prior:
    """What is believed of the coefficients before anything is measured: a mean, and a relative standard deviation."""

    mean: dict[Term, float]
    relative_sd: float


@dataclass(frozen=True)
class Fit:
    """Terms with their coefficients in seconds; those that came out as zero are among them."""

    values: dict[Term, float]

    @property
    def terms(self) -> list[Term]:
        return list(self.values)

    def seconds(self, steps: Steps) -> np.ndarray:
        """(rows,) what each step should take."""
        return matrix(self.terms, steps) @ np.array(list(self.values.values()))


def fit(steps: Steps, prior: Prior | None = None, optional: Sequence[Term] = OPTIONAL) -> Fit:
    """The basic terms, and those of the optional ones that foretell what is held out, by non-negative least squares.

    Each step's squared error is divided by its duration. Undivided, the longest steps alone would decide; divided by the
    duration's square (relative errors), the shortest would, and the long ones, which are most of a busy system's time, come
    out too short. The duration is the mean of the step's repeats, where there are any: divided by its own, one that noise
    made shorter would count more than one that it made longer, and all would come out too short, by the noise's square.
    """
    terms = basic_terms(steps)
    check_enough(steps, terms)
    return solve(steps, select(steps, terms, optional), prior)


def basic_terms(steps: Steps) -> list[Term]:
    """Those of which the steps speak; of several that are the same in these steps the first stands for all."""
    terms = spoken_of(BASIC, steps)
    same = duplicates(weighted(steps, terms)[0])
    return [term for place, term in enumerate(terms) if place not in same]


def left_out(steps: Steps) -> list[str]:
    """In words, which basic terms are not in the fit, and why."""
    spoken = spoken_of(BASIC, steps)
    silent = [term.name for term in BASIC if term not in spoken]
    lines = [f"no step says anything of {', '.join(silent)}: taken as 0"] if silent else []
    for later, earlier in duplicates(weighted(steps, spoken)[0]).items():
        lines.append(f"{spoken[later]} is in proportion to {spoken[earlier]} in all steps: the latter stands for both")
    return lines


def check_enough(steps: Steps, terms: Sequence[Term], which: str = "") -> None:
    """Raises ValueError where there are too few different steps for the terms; `which` says what steps these are."""
    there, needed = steps.distinct, STEPS_A_TERM * len(terms)
    if there < needed:
        names = ", ".join(map(str, terms))
        raise ValueError(
            f"{there} different steps {which}are too few for {len(terms)} terms ({names}): at least {needed} are needed, "
            f"that differ in batch, context and chunk"
        )


def solve(steps: Steps, terms: Sequence[Term], prior: Prior | None = None) -> Fit:
    """The coefficients of these terms."""
    rows, target = weighted(steps, terms)
    if prior is not None:
        believed, means = _prior_rows(steps, terms, prior)
        rows, target = np.concatenate((rows, believed)), np.concatenate((target, means))
    return Fit(dict(zip(terms, (float(value) for value in nnls(rows, target)), strict=True)))


def weighted(steps: Steps, terms: Sequence[Term], seconds: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The least-squares problem: (steps, terms) and (steps,), each row times 1 / sqrt(usual duration of such a step), or
    of `seconds` (rows,)."""
    weight = 1 / np.sqrt(usual_s(steps) if seconds is None else seconds)
    return matrix(terms, steps) * weight[:, None], steps.seconds * weight


def usual_s(steps: Steps) -> np.ndarray:
    """(rows,) the mean duration of a step's repeats. In a run hardly two steps are the same: there, of all like it within a
    factor of two, since whatever a weight is, it must not depend on the noise of the one step that it is of."""
    if steps.kind != RUN:
        return steps.usual_s
    cell = cells(steps)
    return np.asarray((np.bincount(cell, steps.seconds) / np.bincount(cell))[cell])


def _prior_rows(steps: Steps, terms: Sequence[Term], prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """One row a term: (value - mean) / sd, in units of the residuals, so that it counts as one measured step more."""
    rows, target = weighted(steps, terms)
    free = nnls(rows, target)
    residual = float(np.sqrt(np.mean((rows @ free - target) ** 2)))
    known = [(place, prior.mean[term]) for place, term in enumerate(terms) if prior.mean.get(term, 0.0) > 0]
    believed, means = np.zeros((len(known), len(terms))), np.zeros(len(known))
    for row, (place, mean) in enumerate(known):
        believed[row, place] = residual / (prior.relative_sd * mean)
        means[row] = residual / prior.relative_sd
    return believed, means


def select(steps: Steps, basic: Sequence[Term], optional: Sequence[Term]) -> list[Term]:
    """`basic`, and as few of the optional terms as foretell held-out blocks nearly as well as any number of them.

    From all that a fit to all steps does not set to zero, one after the other is taken away that is missed least. Of the
    sets on the way the smallest is chosen whose held-out error is within 1 % of the least.
    """
    candidates = within_range(spoken_of(optional, steps), steps)
    held_out = _HeldOut(steps, [*basic, *candidates])
    chosen = held_out.useful([*basic, *candidates], basic)
    way = [(held_out.error(chosen), chosen)]
    while len(chosen) > len(basic):
        smaller = [[term for term in chosen if term is not without] for without in chosen if without not in basic]
        errors = [held_out.error(terms) for terms in smaller]
        least = int(np.argmin(errors))
        chosen = smaller[least]
        way.append((errors[least], chosen))
    enough = (1 + WORTH_A_TERM) * min(error for error, _ in way)
    return next(terms for error, terms in reversed(way) if error <= enough)


class _HeldOut:
    """Errors of fits with some of the terms, each part of the steps foretold by a fit to the others.

    The parts are brought to triangles once: a fit with any of the terms is then one over a few rows. Weights are of the
    measured durations: of few steps, repeats' means chose worse terms (Llama-2-70B on H100: prefill 17 % off, not 13).
    """

    def __init__(self, steps: Steps, terms: Sequence[Term]) -> None:
        self.terms = list(terms)
        rows, target = weighted(steps, terms, steps.seconds)
        self.parts = [triangle(rows[mask], target[mask]) for mask in folds(blocks(steps))]

    def error(self, terms: Sequence[Term]) -> float:
        """Sum over the steps of squared error / duration."""
        places = [self.terms.index(term) for term in terms]
        total = 0.0
        for held_out, part in enumerate(self.parts):
            others = [other for number, other in enumerate(self.parts) if number != held_out] or [part]
            rest = np.concatenate(others)
            values = nnls(rest[:, places], rest[:, -1])
            total += float(np.sum((part[:, places] @ values - part[:, -1]) ** 2))
        return total

    def useful(self, terms: Sequence[Term], basic: Sequence[Term]) -> list[Term]:
        """The basic ones, and of the others those that a fit to all steps does not set to zero."""
        places = [self.terms.index(term) for term in terms]
        rows = np.concatenate(self.parts)
        values = nnls(rows[:, places], rows[:, -1])
        return [term for term, value in zip(terms, values, strict=True) if value > 0 or term in basic]
