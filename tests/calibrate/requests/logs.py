"""Logs made by a simulator whose coefficients and pool are known, and what they are calibrated with."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from twin.calibrate.options import Options
from twin.calibrate.requests import command
from twin.calibrate.requests.basis import FittedTerms
from twin.calibrate.requests.evidence import Evidence
from twin.calibrate.requests.log import COLUMNS, RequestLog
from twin.calibrate.requests.prior import Guess, Prior
from twin.calibrate.requests.search import Problem
from twin.calibrate.requests.served import Played, Served
from twin.calibrate.requests.workload import LogWorkload
from twin.core.batch import Features
from twin.core.limits import Limits, Rules
from twin.latency.model import LatencyModel

TERMS = FittedTerms.terms
# An 8B model on a GPU of 2 TB/s, about: seconds of a step, with prefill, a prompt token, a decode, a context token, a pair.
TRUTH = np.array([0.010, 0.006, 3e-5, 2e-5, 9e-8, 2e-9])


class Noisy(LatencyModel):
    """The model inside, each step off by a factor of its own."""

    def __init__(self, inner: LatencyModel, sd: float, seed: int) -> None:
        self.inner, self.sd, self.draw = inner, sd, np.random.default_rng(seed)

    def step_s(self, features: Features) -> float:
        return self.inner.step_s(features) * float(np.exp(self.sd * self.draw.standard_normal()))


def blank_log(count: int, rate: float, seed: int = 0) -> RequestLog:
    """Arrivals and lengths, without stamps."""
    draw = np.random.default_rng(seed)
    arrival_s = np.cumsum(draw.exponential(1 / rate, count))
    arrival_s -= arrival_s[0]
    prompt = np.clip(draw.lognormal(6.0, 0.9, count), 8, 3000).astype(np.int64)
    output = np.clip(draw.lognormal(4.6, 0.6, count), 4, 700).astype(np.int64)
    empty = np.full(count, np.nan)
    return RequestLog("made", [f"r{row}" for row in range(count)], arrival_s, prompt, output, empty, empty, empty, empty)


def served_by(log: RequestLog, blocks: int = 100_000, seats: int = 64) -> Served:
    limits = Limits(blocks, max_num_seqs=seats, max_num_batched_tokens=2048, enable_prefix_caching=True)
    return Served(LogWorkload(log, 16), limits, Rules(async_scheduling=True))


def made_log(
    count: int = 160, rate: float = 9.0, blocks: int = 100_000, seed: int = 0, noise: float = 0.01, seats: int = 64
) -> tuple[RequestLog, Played]:
    """What the true model would have logged, with noise in every step."""
    log = blank_log(count, rate, seed)
    latency = Noisy(FittedTerms().latency(TRUTH), noise, seed)
    played, _ = served_by(log, blocks, seats).play_steps(latency)
    log = RequestLog(
        "made", log.request_id, log.arrival_s, log.prompt_tokens, log.output_tokens, log.arrival_s.copy(),
        played.scheduled_s, played.first_s, played.last_s,
    )  # fmt: skip
    return log, played


def wide_prior(off: float = 1.3) -> Prior:
    """The truth, all of it wrong by a factor, and hardly trusted."""
    guesses = {name: Guess(off * value, off * value) for name, value in zip(TERMS, TRUTH, strict=True)}
    return Prior.of(guesses, TERMS, TERMS, "made up")


def problem_of(log: RequestLog, blocks: int = 100_000, prior: Prior | None = None, seats: int = 64) -> Problem:
    rows = np.flatnonzero(log.stamped)
    return Problem(served_by(log, blocks, seats), FittedTerms(), prior or wide_prior(), Evidence(log, rows))


def write_csv(log: RequestLog, path: Path, names: dict[str, str] | None = None, scale: float = 1.0) -> Path:
    """A log as a CSV file, columns renamed and times multiplied."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([(names or {}).get(name, name) for name in COLUMNS])
        for row in range(len(log)):
            cells = [getattr(log, name)[row] for name in COLUMNS]
            times = [cell * scale if name.endswith("_s") else cell for name, cell in zip(COLUMNS, cells, strict=True)]
            writer.writerow(["" if isinstance(cell, float) and np.isnan(cell) else cell for cell in times])
    return path


def options_of(path: Path, to: Path, *words: str) -> Options:
    """As the command line hands them over."""
    from twin.cli.compose import compose

    own = {name: default for name, (default, _) in command.OWN.items()} | {"requests": str(path), "to": str(to)}
    rest = []
    for word in words:
        key, _, value = word.partition("=")
        if key in own:
            own[key] = value
        else:
            rest.append(word)
    values = compose(rest).values
    return Options(own, values, frozenset(word.partition("=")[0] for word in rest), "python -m twin calibrate")
