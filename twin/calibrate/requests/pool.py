"""How many KV blocks the server had, where nobody says so: the pool with which the simulated log is most like the real one.

A pool that is short decides who is preempted and who is admitted when; with a few percent too many or too few blocks others
are, and the times of those requests are nothing like the real ones. That is a sharp measure. A pool that is never short
shows in nothing, and any size from the largest that was used on is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from twin.calibrate.requests.log import RequestLog
from twin.calibrate.requests.search import Problem, Solution, gauss_newton
from twin.calibrate.requests.stalls import missed_in, stalled
from twin.core.limits import MOST, blocks_for

# (relative width, step) of each scan, around the best of the one before. The third is wide for its step: half a percent from
# the right size the loss is tenfold, and coefficients that were fitted with a wrong one hide it from a coarse scan.
SCANS = ((0.30, 0.025), (0.03, 0.004), (0.015, 0.001), (0.0012, 0.0002))
LAST_SCAN = (0.01, 0.0005)  # with the coefficients polished
ESTIMATED = "estimated from the log, in which the pool was short"
LEAST = "estimated from the log: it could not be smaller; what was fitted would have met the same with a larger one"
LARGER = 1.1  # times as many blocks
HELD_UP_STEPS, HELD_UP_SHARE = 8, 0.005
BAD_LOSS = 0.5  # a request: more than the errors of a right pool
UNKNOWN = 33  # sizes tried, evenly in their logarithm, where nothing is known of the pool


@dataclass(frozen=True)
class Pool:
    blocks: int
    source: str  # in words
    estimated: bool = False


def endless_pool(log: RequestLog, block_size: int) -> int:
    """Blocks that are enough whatever happens, for all that was ever computed to stay in the prefix cache."""
    return min(MOST["num_blocks"], sum(request_blocks(log, block_size)))


def request_blocks(log: RequestLog, block_size: int) -> list[int]:
    """Blocks that each request holds in the end."""
    return [blocks_for(int(tokens), block_size) for tokens in log.prompt_tokens + log.output_tokens - 1]


def with_blocks(problem: Problem, blocks: int) -> Problem:
    return replace(problem, served=problem.served.with_blocks(blocks))


def short(problem: Problem, theta: np.ndarray) -> bool:
    """Whether a pool of this size holds requests up: with an endless one they would end some steps earlier or later.

    A pool that only forgets cached prefixes sooner shifts everybody a little, and is not short.
    """
    log, latency = problem.evidence.log, problem.basis.latency(theta)
    endless = problem.served.with_blocks(endless_pool(log, problem.served.limits.block_size))
    shift_s = np.abs(problem.served.play(latency).last_s - endless.play(latency).last_s)
    return bool((shift_s > HELD_UP_STEPS * np.nanmedian(log.tpot_s)).mean() > HELD_UP_SHARE)


def found(problem: Problem, planned: int | None, scans: Sequence[tuple[float, float]] = SCANS) -> tuple[Pool, Solution]:
    """The pool that fits the log best, and the coefficients with it.

    `planned` is where to look first: the memory plan's size, None where there is no plan. A pool that could not be short,
    were it smaller by the width of the first scan, is left as planned. Where what is found near the plan does not fit,
    the plan is forgotten, and so it is where a pool that is never short fits better.
    """
    log, block_size = problem.evidence.log, problem.served.limits.block_size
    least, most = max(request_blocks(log, block_size)), endless_pool(log, block_size)
    if planned is None:
        blocks, solution = from_nothing(problem, least, most)
    else:
        planned, most = max(planned, least), max(planned, most)
        solution = gauss_newton(with_blocks(problem, planned))
        smaller = with_blocks(problem, max(least, int(planned * (1 - scans[0][0]))))
        if not short(smaller, solution.theta) and not log_stalls(with_blocks(problem, planned), solution.theta):
            return Pool(planned, "by the memory plan; in this log it is never short"), solution
        blocks, solution = closer(problem, solution, planned, scans, least, most)
        endless = gauss_newton(with_blocks(problem, most))
        if solution.loss > min(BAD_LOSS * len(problem.evidence.chosen), endless.loss):
            other, otherwise = from_nothing(problem, least, most)
            if otherwise.loss < solution.loss:
                blocks, solution = other, otherwise
    if not short(with_blocks(problem, blocks), solution.theta):
        return Pool(blocks, "never short in this log: any size from the largest used on is right"), solution
    larger = with_blocks(problem, int(blocks * LARGER)).loss(solution.theta)
    source = ESTIMATED if larger > solution.loss + 1 else LEAST
    return Pool(blocks, source, estimated=True), solution


def once_more(problem: Problem, theta: np.ndarray) -> int:
    """The size, looked at closely again with better coefficients."""
    width, step = LAST_SCAN
    blocks = problem.served.limits.num_blocks
    return most_alike(problem, theta, blocks * (1 + np.arange(-width, width + step / 2, step)), blocks)


def from_nothing(problem: Problem, least: int, most: int) -> tuple[int, Solution]:
    """Begins with a pool that is never short, since such coefficients are the least wrong."""
    solution = gauss_newton(with_blocks(problem, most))
    blocks = most_alike(problem, solution.theta, np.geomspace(least, most, UNKNOWN), most)
    return closer(problem, solution, blocks, SCANS, least, most)


def closer(
    problem: Problem, solution: Solution, blocks: int, scans: Sequence[tuple[float, float]], least: int, most: int
) -> tuple[int, Solution]:
    """Scan after scan around the best size, the coefficients fitted anew with each."""
    for width, step in scans:
        sizes = np.clip(blocks * (1 + np.arange(-width, width + step / 2, step)), least, most)
        blocks = most_alike(problem, solution.theta, sizes, blocks)
        solution = gauss_newton(with_blocks(problem, blocks), start=solution.theta)
    return blocks, solution


def most_alike(problem: Problem, theta: np.ndarray, sizes: np.ndarray, near: int) -> int:
    """The size whose simulated stamps are nearest to the log's; of equals the one nearest to `near`."""
    tried = sorted({near, *(round(size) for size in sizes)})
    losses = [round(with_blocks(problem, blocks).loss(theta), 6) for blocks in tried]
    distances = [abs(blocks - near) for blocks in tried]
    return min(zip(losses, distances, tried, strict=True))[2]


def log_stalls(problem: Problem, theta: np.ndarray) -> bool:
    """Whether requests of the log stalled, as only a full pool makes them."""
    log = problem.evidence.log
    _, steps = problem.served.play_steps(problem.basis.latency(theta))
    return bool(stalled(missed_in(log, steps), log.output_tokens)[problem.evidence.chosen].any())
