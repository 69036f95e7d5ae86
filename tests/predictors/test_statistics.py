"""Errors have the size that was asked for. Fixed seeds; tolerances are four standard errors, or a test at 0.1 %."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from twin.predictors.bucket import Bucket
from twin.predictors.noisy import Noisy

COUNT = 5000
IDS = [str(row) for row in range(COUNT)]
LENGTHS = [int(length) for length in np.random.default_rng(5).lognormal(7, 1, COUNT) + 1]  # few are equal


def predicted(predictor: Noisy | Bucket, lengths: list[int] = LENGTHS, seed: int = 1) -> np.ndarray:
    predictor.seed = seed
    predictor.prepare(lengths)
    return np.array(predictor.predict_all(IDS, lengths))


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0])
def test_the_logarithm_of_lognormal_errors_is_normal_with_sigma(sigma: float):
    errors = np.log(predicted(Noisy(sigma=sigma)) / LENGTHS)
    assert stats.kstest(errors / sigma, "norm").pvalue > 0.001
    assert errors.std() == pytest.approx(sigma, rel=4 / sqrt(2 * COUNT))


def test_exponential_predictions_are_exponential_with_the_length_as_mean():
    ratios = predicted(Noisy("exponential")) / LENGTHS
    assert stats.kstest(ratios, "expon").pvalue > 0.001
    assert ratios.mean() == pytest.approx(1, abs=4 / sqrt(COUNT))


@pytest.mark.parametrize("tau", [-0.5, 0.0, 0.2, 0.5, 0.8, 0.95])
def test_rank_noise_has_the_kendall_tau_asked_for(tau: float):
    """The standard error of tau is at most that of independence, sqrt(2 (2n + 5) / (9 n (n - 1)))."""
    made = predicted(Noisy("rank", tau=tau))
    error = sqrt(2 * (2 * COUNT + 5) / (9 * COUNT * (COUNT - 1)))
    assert stats.kendalltau(LENGTHS, made).statistic == pytest.approx(tau, abs=4 * error)


def test_rank_noise_predicts_lengths_of_the_trace_distributed_as_they_are():
    made = predicted(Noisy("rank", tau=0.3))
    assert set(made) <= set(LENGTHS)
    assert stats.ks_2samp(made, LENGTHS).pvalue > 0.001


@pytest.mark.parametrize("accuracy", [0.25, 0.8])
def test_the_right_bucket_is_named_so_often_and_neighbours_alike(accuracy: float):
    named = predicted(Bucket(10, accuracy=accuracy, value="upper"))
    right = predicted(Bucket(10, value="upper"))
    edges = sorted(set(right))
    off = np.searchsorted(edges, named) - np.searchsorted(edges, right)
    assert set(off) == {-1, 0, 1}
    assert (off == 0).mean() == pytest.approx(accuracy, abs=4 * sqrt(accuracy * (1 - accuracy) / COUNT))
    inside = (right > edges[0]) & (right < edges[-1])
    missed = off[inside & (off != 0)]
    assert (missed == 1).mean() == pytest.approx(0.5, abs=4 * 0.5 / sqrt(len(missed)))


def test_buckets_by_quantiles_are_equally_full():
    _, counts = np.unique(predicted(Bucket(10)), return_counts=True)
    assert len(counts) == 10 and counts.min() >= COUNT / 10 - 5 and counts.max() <= COUNT / 10 + 5


def test_another_seed_is_another_error():
    one, other = (np.log(predicted(Noisy(), seed=seed) / LENGTHS) for seed in (1, 2))
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / sqrt(COUNT)
