"""What is not known: intervals of the coefficients, how much of each is the prior's, and which cannot be told apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twin.calibrate.requests.evidence import huber_weights
from twin.calibrate.requests.search import Problem, solve

NEIGHBOURS, SAMPLES = 10, 80  # requests a block, resamples of blocks
CORRELATED = 0.95  # of the errors of two coefficients, without the prior


@dataclass(frozen=True)
class Doubt:
    """Of each term: 90 % interval (low, high) by resampling blocks of neighbouring requests, and the prior's share of it."""

    low: np.ndarray
    high: np.ndarray
    prior_share: np.ndarray
    inseparable: list[tuple[str, str, float]]


def doubt(problem: Problem, theta: np.ndarray, seed: int = 0) -> Doubt:
    """At the schedule that the coefficients give."""
    target, sd = problem.evidence.measured()
    played, steps = problem.served.play_steps(problem.basis.latency(theta))
    matrix = problem.evidence.features(played, steps, problem.basis.design(steps.features))
    prior = problem.prior
    weights = huber_weights((matrix @ theta - target) / sd)
    samples = resampled(len(problem.evidence.chosen), np.random.default_rng(seed))
    found = []
    for rows in samples:
        places = np.concatenate([rows + part * len(problem.evidence.chosen) for part in range(3)])
        found.append(solve(matrix[places], target[places], sd[places], prior, weights[places]))
    low, middle, high = np.quantile(found, (0.05, 0.5, 0.95), axis=0)
    low, high = (
        np.maximum(0.0, theta + low - middle),
        theta + high - middle,
    )  # the simplex has moved on from the least squares
    free = prior.free
    rows = matrix[:, free] * np.sqrt(weights)[:, None] / sd[:, None]
    scaled = rows * prior.sd[free]  # in standard deviations of the prior
    share = np.zeros(len(theta))
    share[free] = np.diag(np.linalg.inv(scaled.T @ scaled + np.eye(free.sum())))
    share[~free] = 1.0
    names = [name for name, moves in zip(problem.basis.terms, free, strict=True) if moves]
    return Doubt(low, high, share, inseparable(scaled, names))


def resampled(count: int, draw: np.random.Generator) -> list[np.ndarray]:
    """Rows of as many requests, block after block of neighbours, drawn with replacement."""
    blocks = [np.arange(begin, min(begin + NEIGHBOURS, count)) for begin in range(0, count, NEIGHBOURS)]
    return [np.concatenate([blocks[i] for i in draw.integers(len(blocks), size=len(blocks))]) for _ in range(SAMPLES)]


def inseparable(rows: np.ndarray, names: list[str]) -> list[tuple[str, str, float]]:
    """Pairs of terms of which the log alone knows only a combination, and how their errors correlate."""
    precision = rows.T @ rows
    covariance = np.linalg.inv(precision + 1e-11 * np.trace(precision) * np.eye(len(precision)))  # what no row tells is huge
    sd = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = covariance / np.outer(sd, sd)
    return [
        (names[first], names[second], float(correlation[first, second]))
        for first in range(len(names))
        for second in range(first + 1, len(names))
        if abs(correlation[first, second]) > CORRELATED
    ]
