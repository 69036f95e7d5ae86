"""A calibration: the coefficients and the pool from some requests of a log, and what they foretell of the others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from twin.calibrate.requests.errors import Errors, errors
from twin.calibrate.requests.evidence import Evidence
from twin.calibrate.requests.log import FEWEST, RequestLog
from twin.calibrate.requests.pool import SCANS, Pool, found, once_more, short, with_blocks
from twin.calibrate.requests.search import Problem, Solution, gauss_newton, polish
from twin.calibrate.requests.served import Played, Steps
from twin.calibrate.requests.stalls import missed_by, missed_in, stalled

MOST_TURNS = 3  # of pool and coefficients, each looked at anew with the other


@dataclass(frozen=True)
class Blocks:
    """What is known of the pool: a size that was given, else one that the memory plan says, else nothing."""

    given: int | None = None
    planned: int | None = None


@dataclass(frozen=True, eq=False)
class Calibration:
    """The problem, with the pool that was found, and its solution."""

    problem: Problem
    theta: np.ndarray
    pool: Pool

    def play_steps(self) -> tuple[Played, Steps]:
        return self.problem.served.play_steps(self.problem.basis.latency(self.theta))


@dataclass(frozen=True, eq=False)
class Foretold:
    """How the simulated log compares with the real one, over some requests."""

    errors: Errors
    pool_short: bool
    stalled: list[str]  # ids of those that stalled in the log
    named: list[str]  # of these, those that are preempted while they generate in the simulation too
    falsely: int  # that stall in the simulation alone

    @property
    def recall(self) -> float:
        """Share of the stalled requests that the simulation names; nan where none stalled."""
        return len(self.named) / len(self.stalled) if self.stalled else float("nan")


def fitted_rows(log: RequestLog, cold: int) -> np.ndarray:
    """Rows that can be fitted: stamped, and not among the first `cold` requests, whose steps warm the server up.

    Of a short log fewer are left out: a fifth at most.
    """
    rows = np.flatnonzero(log.stamped)
    return rows[min(cold, len(rows) // 5) :]


def halves(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first half in order of arrival, and the second."""
    middle = len(rows) // 2
    if middle < FEWEST // 2:
        raise ValueError(f"holdout=half: {len(rows)} requests can be fitted, too few for two halves; give holdout=none")
    return rows[:middle], rows[middle:]


def calibrate(problem: Problem, rows: np.ndarray, blocks: Blocks, near: Pool | None = None) -> Calibration:
    """From these requests alone; all of the log load the system. `near` is a pool found in part of the log before."""
    problem = replace(problem, evidence=Evidence(problem.evidence.log, rows))
    if blocks.given is not None:
        problem, pool = with_blocks(problem, blocks.given), Pool(blocks.given, "as given")
        solution = gauss_newton(problem)
    else:
        pool, solution = found(problem, near.blocks, SCANS[1:]) if near else found(problem, blocks.planned)
        problem = with_blocks(problem, pool.blocks)
    solution = polish(problem, solution)
    for _ in range(MOST_TURNS):
        if not pool.estimated or (blocks_now := once_more(problem, solution.theta)) == pool.blocks:
            break
        problem, pool = with_blocks(problem, blocks_now), replace(pool, blocks=blocks_now)
        solution = polish(problem, Solution(solution.theta, problem.loss(solution.theta)))
    return Calibration(problem, solution.theta, pool)


def foretold(calibration: Calibration, rows: np.ndarray) -> Foretold:
    """What the calibrated simulator makes of these requests, and how wrong it is."""
    log = calibration.problem.evidence.log
    played, steps = calibration.play_steps()
    real = set(np.flatnonzero(stalled(missed_in(log, steps), log.output_tokens)).tolist())
    missed = missed_by(played, steps, log.output_tokens)
    ours, long = set(np.flatnonzero(missed > 0).tolist()), set(np.flatnonzero(stalled(missed, log.output_tokens)).tolist())
    chosen = set(rows.tolist())
    return Foretold(
        errors(log, played, rows),
        short(calibration.problem, calibration.theta),
        [log.request_id[row] for row in sorted(real & chosen)],
        [log.request_id[row] for row in sorted(real & ours & chosen)],
        len((long - real) & chosen),
    )
