"""Logs of a known model: what a calibration finds of it, and of its pool."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.calibrate.requests.logs import (
    TERMS,
    TRUTH,
    blank_log,
    made_log,
    options_of,
    problem_of,
    served_by,
    wide_prior,
    write_csv,
)
from twin.calibrate.requests import command
from twin.calibrate.requests.basis import FittedTerms
from twin.calibrate.requests.doubt import doubt, inseparable
from twin.calibrate.requests.errors import errors
from twin.calibrate.requests.evidence import Evidence
from twin.calibrate.requests.fit import Blocks, calibrate, foretold
from twin.calibrate.requests.log import RequestLog
from twin.calibrate.requests.pool import found
from twin.calibrate.requests.search import Problem, gauss_newton, nelder_mead, polish, solve
from twin.calibrate.requests.served import Played
from twin.calibrate.requests.stalls import missed_by, missed_in, stalled
from twin.core.batch import Features
from twin.latency.model import LatencyModel


def test_a_log_without_noise_gives_the_coefficients_back():
    """From a prior that is wrong by 30 % in all of them."""
    log, _ = made_log(noise=0.0)
    problem = problem_of(log)
    found_ = polish(problem, gauss_newton(problem))
    ratio = dict(zip(TERMS, found_.theta / TRUTH, strict=True))
    for name in ("constant", "prefill"):
        assert ratio[name] == pytest.approx(1, abs=0.04), ratio
    assert ratio["mixed"] == pytest.approx(1, abs=0.15), ratio
    told = errors(log, problem.served.play(problem.basis.latency(found_.theta)), np.arange(len(log)))
    assert max(abs(told.signed[metric]["mean"]) for metric in ("tpot", "e2e")) < 0.5
    assert abs(told.signed["ttft"]["mean"]) < 2  # a twentieth of a second: which step an arrival catches is chance


def test_the_true_coefficients_lose_nothing():
    log, _ = made_log(noise=0.0)
    assert problem_of(log).evidence.misfit(served_by(log).play(FittedTerms().latency(TRUTH))) == pytest.approx(0, abs=1e-12)


def test_intervals_as_simulated_sum_up_to_the_times_simulated():
    """features @ theta are the seconds of each interval: the invariant on which Gauss-Newton stands."""
    log, _ = made_log(count=60, noise=0.0)
    problem = problem_of(log)
    played, steps = problem.served.play_steps(problem.basis.latency(TRUTH))
    features = problem.evidence.features(played, steps, problem.basis.design(steps.features))
    _, prefill, decode = (features @ TRUTH).reshape(3, -1)
    assert decode == pytest.approx(played.last_s - played.first_s, abs=1e-9)
    assert prefill == pytest.approx(played.first_s - played.scheduled_s, abs=1e-9)


def test_steps_by_themselves_and_fast_forwarded_end_at_the_same_times():
    log, _ = made_log(count=60, noise=0.0)
    served, latency = served_by(log), FittedTerms().latency(TRUTH)
    played, steps = served.play_steps(latency)
    assert np.array_equal(played.last_s, served.play(latency).last_s)
    assert np.isin(np.round(played.last_s, 9), np.round(steps.end_s, 9)).all()


def test_the_second_half_is_foretold_from_the_first():
    log, _ = made_log(count=200, rate=14.0)
    problem = problem_of(log)
    calibration = calibrate(problem, np.arange(5, 100), Blocks(given=100_000))
    told = foretold(calibration, np.arange(100, 200)).errors
    assert [missed for missed in told.missed_targets() if not missed.startswith("ttft")] == []
    assert max(map(abs, told.signed["ttft"].values())) < 4  # nobody queues: which step an arrival catches is chance


def test_rows_with_empty_stamps_load_the_system_and_are_not_fitted():
    log, _ = made_log(count=120)
    whole, half = log.first_token_s.copy(), np.arange(120) % 2 == 0
    for name in ("first_token_s", "finish_s", "scheduled_s"):
        getattr(log, name)[~half] = np.nan
    problem = problem_of(log)
    assert len(problem.evidence.chosen) == 60
    played = problem.served.play(problem.basis.latency(gauss_newton(problem).theta))
    wait = whole - log.arrival_s
    assert (played.first_s - log.arrival_s)[~half].mean() == pytest.approx(wait[~half].mean(), rel=0.02)


def test_a_log_without_scheduled_stamps_is_fitted_by_its_first_tokens():
    log, _ = made_log(noise=0.0)
    log.scheduled_s[:] = np.nan
    problem = problem_of(log)
    told = errors(log, problem.served.play(problem.basis.latency(gauss_newton(problem).theta)), np.arange(len(log)))
    assert abs(told.signed["ttft"]["mean"]) < 2 and abs(told.signed["e2e"]["mean"]) < 0.5


SHORT = 420  # blocks: a pool in which requests of this log stall


def short_log(noise: float = 0.01) -> tuple[RequestLog, Played]:
    return made_log(count=160, rate=16.0, blocks=SHORT, noise=noise)


def test_stalled_requests_are_told_from_the_stamps_alone():
    """Truth: the steps that each request missed, counted in the simulation that made the log."""
    log, played = short_log()
    _, steps = served_by(log, SHORT).play_steps(FittedTerms().latency(TRUTH))
    truth = stalled(
        missed_by(*served_by(log, SHORT).play_steps(FittedTerms().latency(TRUTH)), log.output_tokens), log.output_tokens
    )
    assert (played.preemptions > 0).sum() > 10 and truth.sum() > 5
    seen = stalled(missed_in(log, steps), log.output_tokens)
    assert (seen & truth).sum() >= 0.9 * truth.sum() and (seen & ~truth).sum() <= 0.1 * truth.sum() + 1


def test_nobody_stalls_in_a_pool_that_is_large_enough():
    log, played = made_log()
    _, steps = served_by(log).play_steps(FittedTerms().latency(TRUTH * 1.02))
    assert played.preemptions.sum() == 0
    assert not stalled(missed_in(log, steps), log.output_tokens).any()


@pytest.mark.parametrize("planned", [int(SHORT * 1.12), None])
def test_a_short_pool_is_found_from_the_log(planned):
    log, _ = short_log()
    pool, _ = found(problem_of(log, prior=wide_prior(1.1)), planned)
    assert pool.blocks == pytest.approx(SHORT, rel=0.02)
    assert "estimated" in pool.source


def test_a_short_pool_is_found_to_the_block_though_steps_are_no_sum_of_the_terms():
    """Every second sixteen of sequences costs 3 % more. Half a percent off, others are preempted: a coarse scan, with
    coefficients that were fitted with a wrong pool, stayed at 579 of 600 blocks, and the times per token had nothing to do
    with the real ones (correlation 0.63)."""

    class Bent(LatencyModel):
        def step_s(self, features: Features) -> float:
            return FittedTerms().latency(TRUTH).step_s(features) * (1.03 if features.sequences // 16 % 2 else 1.0)

    blank = blank_log(160, 12.0)
    played, _ = served_by(blank, 600).play_steps(Bent())
    stamps = {"scheduled_s": played.scheduled_s, "first_token_s": played.first_s, "finish_s": played.last_s}
    log = replace(blank, queued_s=blank.arrival_s.copy(), **stamps)
    calibration = calibrate(problem_of(log, prior=wide_prior(1.1)), np.arange(5, 160), Blocks(planned=840))
    told = foretold(calibration, np.arange(5, 160))
    assert calibration.pool.blocks == pytest.approx(600, abs=1)
    assert told.recall >= 0.95 and told.errors.correlation["tpot"] > 0.98


def test_a_pool_that_is_never_short_is_left_as_planned():
    log, _ = made_log()
    pool, _ = found(problem_of(log), 20_000)
    assert pool.blocks == 20_000 and "never short" in pool.source


def test_stalled_requests_of_the_second_half_are_named():
    log, _ = short_log()
    calibration = calibrate(problem_of(log, prior=wide_prior(1.1)), np.arange(5, 80), Blocks(planned=int(SHORT * 1.1)))
    told = foretold(calibration, np.arange(80, 160))
    assert told.pool_short and len(told.stalled) >= 3
    assert told.recall >= 0.9 and told.errors.correlation["tpot"] >= 0.98


def test_the_interval_holds_the_truth_where_the_log_speaks_and_the_prior_where_it_does_not():
    log, _ = made_log()
    problem = problem_of(log)
    theta = gauss_newton(problem).theta
    unknown = doubt(problem, theta)
    share = dict(zip(TERMS, unknown.prior_share, strict=True))
    assert np.all((unknown.prior_share >= 0) & (unknown.prior_share <= 1))
    assert share["constant"] < 0.1 < share["attention"]
    assert np.all(unknown.low <= theta) and np.all(theta <= unknown.high)


def test_contexts_alike_leave_only_a_combination_known():
    """With every context 100 tokens, decode and context are one column but for a factor."""
    rows = np.array([[1.0, n, 100.0 * n] for n in range(1, 30)]) / (1, 10, 1000)
    pairs = inseparable(rows, ["constant", "decode", "context"])
    assert [(one, other) for one, other, _ in pairs] == [("decode", "context")] and pairs[0][2] < -0.99


def test_the_prior_alone_where_rows_say_nothing_and_the_rows_alone_where_it_is_wide():
    prior = wide_prior()
    matrix, target = np.eye(len(TRUTH)), TRUTH.copy()
    weak = solve(matrix, target, np.full(len(TRUTH), 1e3), prior)
    strong = solve(matrix, target, TRUTH * 1e-4, prior)
    assert weak == pytest.approx(prior.mean, rel=1e-3) and strong == pytest.approx(TRUTH, rel=1e-3)


def test_terms_that_are_held_fixed_stay_at_their_means():
    log, _ = made_log(count=80)
    guesses = wide_prior()
    held = np.array([name in ("constant", "mixed") for name in TERMS])
    prior = type(guesses)(guesses.mean, np.where(held, guesses.sd, 0.0), "made up")
    theta = gauss_newton(problem_of(log, prior=prior)).theta
    assert np.array_equal(theta[~held], prior.mean[~held]) and not np.array_equal(theta[held], prior.mean[held])


def test_the_simplex_finds_the_bottom_of_a_valley():
    """Rosenbrock's function has its least value, 0, at (1, 1)."""

    def rosenbrock(x):
        return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    start = np.array([-0.5, 0.5])
    point, value = nelder_mead(rosenbrock, start, rosenbrock(start), 0.3, evaluations=300)
    assert value < 1e-6 and point == pytest.approx([1, 1], abs=1e-2)


def test_a_calibration_does_not_depend_on_chance():
    log, _ = made_log(count=60)

    def once() -> np.ndarray:
        problem = Problem(served_by(log), FittedTerms(), wide_prior(), Evidence(log, np.arange(60)))
        return gauss_newton(problem).theta

    assert np.array_equal(once(), once())


def test_the_file_gives_in_a_run_what_the_calibration_found(tmp_path: Path):
    """The whole command: the file that it writes is what latency=fitted reads."""
    from twin.latency.make import read_fitted

    log, _ = made_log(count=120)
    path = write_csv(log, tmp_path / "log.csv")
    words = ("scheduler.max_num_batched_tokens=2048", "scheduler.max_num_seqs=64", "cache.num_gpu_blocks=100000")
    assert command.main(options_of(path, tmp_path / "mine.yaml", *words)) == 0
    played = served_by(log).play(read_fitted(tmp_path / "mine.yaml"))
    told = errors(log, played, np.arange(5, 120))
    assert abs(told.signed["tpot"]["mean"]) < 1 and abs(told.signed["e2e"]["mean"]) < 1 and abs(told.makespan) < 1.5
    report = (tmp_path / "mine.md").read_text()
    assert "## Coefficients" in report and "Held out" in report and "100,000 blocks: as given" in report
