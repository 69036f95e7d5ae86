"""The coefficients whose simulated log is nearest to the real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twin.calibrate.nnls import nnls
from twin.calibrate.requests.basis import Basis
from twin.calibrate.requests.evidence import Evidence, huber_weights
from twin.calibrate.requests.prior import Prior
from twin.calibrate.requests.served import Served

ROUNDS, AGAIN, REWEIGHTINGS = 9, 5, 12  # from the prior, from a solution with another pool
SURE, MIXING = 3, 0.5  # rounds that take the solution, then half of it: near the end the schedule jumps to and fro
SPREADS, EVALUATIONS = (0.03, 0.01), 30  # of the simplex: its first width, and simulations, for each start


@dataclass(frozen=True)
class Problem:
    """What is fitted to what."""

    served: Served
    basis: Basis
    prior: Prior
    evidence: Evidence

    def loss(self, theta: np.ndarray) -> float:
        """Of the simulated stamps, and of the distance to the prior: the negative log posterior."""
        played = self.served.play(self.basis.latency(theta))
        return self.evidence.misfit(played) + float(np.sum(self.prior.deviations(theta) ** 2)) / 2


@dataclass(frozen=True)
class Solution:
    theta: np.ndarray
    loss: float


def solve(
    matrix: np.ndarray, target: np.ndarray, sd: np.ndarray, prior: Prior, known: np.ndarray | None = None
) -> np.ndarray:
    """Non-negative Huber least squares with a row for each free coefficient's prior; fixed ones stay at their means.

    `known` are weights that need not be found.
    """
    free = prior.free
    theta = np.where(free, 0.0, prior.mean)
    rest = target - matrix @ theta
    weights = np.ones(len(target)) if known is None else known
    for _ in range(REWEIGHTINGS if known is None else 1):
        scale = np.sqrt(weights) / sd
        rows = np.vstack((matrix[:, free] * scale[:, None], np.diag(1 / prior.sd[free])))
        theta[free] = nnls(rows, np.concatenate((rest * scale, prior.mean[free] / prior.sd[free])))
        if known is None:
            weights = huber_weights((matrix @ theta - target) / sd)
    return theta


def gauss_newton(problem: Problem, start: np.ndarray | None = None) -> Solution:
    """Simulate, sum the terms over each interval as simulated, solve, and again; the best by its simulated stamps."""
    target, sd = problem.evidence.measured()
    theta = (problem.prior.mean if start is None else start).copy()
    tried: list[Solution] = []
    last: list[np.ndarray] = []
    for number in range(ROUNDS if start is None else AGAIN):
        played, steps = problem.served.play_steps(problem.basis.latency(theta))
        loss = problem.evidence.misfit(played) + float(np.sum(problem.prior.deviations(theta) ** 2)) / 2
        tried.append(Solution(theta.copy(), loss))
        matrix = problem.evidence.features(played, steps, problem.basis.design(steps.features))
        found = solve(matrix, target, sd, problem.prior)
        theta = found if number < SURE else MIXING * found + (1 - MIXING) * theta
        last.append(theta)
    tried += [Solution(theta, problem.loss(theta)) for theta in (last[-1], np.mean(last[-4:], axis=0))]
    return min(tried, key=lambda solution: solution.loss)


def polish(problem: Problem, start: Solution) -> Solution:
    """Nelder and Mead's simplex in the logarithms of the free coefficients that are not zero, restarted."""
    moving = problem.prior.free & (start.theta > 0)
    if not moving.any():
        return start
    best = start
    for spread in SPREADS:
        logs, loss = nelder_mead(Moved(problem, best.theta, moving), np.log(best.theta[moving]), best.loss, spread)
        if loss < best.loss:
            best = Solution(moved(best.theta, moving, logs), loss)
    return best


@dataclass(frozen=True)
class Moved:
    """The loss as a function of the logarithms of some of the coefficients."""

    problem: Problem
    theta: np.ndarray
    moving: np.ndarray

    def __call__(self, logs: np.ndarray) -> float:
        return self.problem.loss(moved(self.theta, self.moving, logs))


def moved(theta: np.ndarray, moving: np.ndarray, logs: np.ndarray) -> np.ndarray:
    found = theta.copy()
    found[moving] = np.exp(logs)
    return found


def nelder_mead(
    loss: Callable[[np.ndarray], float], start: np.ndarray, value: float, spread: float, evaluations: int = EVALUATIONS
) -> tuple[np.ndarray, float]:
    """The least point found by the simplex method (Nelder and Mead 1965), from a corner `spread` wide."""
    points = [start, *(start + spread * axis for axis in np.eye(len(start)))]
    values = [value, *(loss(point) for point in points[1:])]
    left = evaluations - len(start)
    while left > 0:
        order = np.argsort(values, kind="stable")
        points, values = [points[i] for i in order], [values[i] for i in order]
        centre = np.mean(points[:-1], axis=0)
        away = centre - points[-1]

        def at(step: float, centre: np.ndarray = centre, away: np.ndarray = away) -> tuple[np.ndarray, float]:
            point = centre + step * away
            return point, loss(point)

        point, reached = at(1.0)
        left -= 1
        if reached < values[0]:
            further, beyond = at(2.0)
            left -= 1
            if beyond < reached:
                point, reached = further, beyond
        elif reached >= values[-2]:
            point, reached = at(0.5 if reached < values[-1] else -0.5)
            left -= 1
            if reached >= values[-1]:
                points = [points[0], *((points[0] + other) / 2 for other in points[1:])]
                values = [values[0], *(loss(other) for other in points[1:])]
                left -= len(points) - 1
                continue
        points[-1], values[-1] = point, reached
    best = int(np.argmin(values))
    return points[best], values[best]
