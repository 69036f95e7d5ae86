"""Warm-up and intervals on data whose truth is known: by hand, AR(1), M/M/1, scipy."""

import numpy as np
import pytest

from twin.compare.intervals import Interval, longer_side, of_independent, of_replicates, of_sections
from twin.compare.warmup import Truncation, arrival_order, in_system, mser5

REPLICATIONS = 300


def ar1(phi: float, size: int, seed: int, start: float = 0.0) -> np.ndarray:
    """Shape [REPLICATIONS, size]; mean 0."""
    noise = np.random.default_rng(seed).standard_normal((REPLICATIONS, size))
    series = np.empty_like(noise)
    last = np.full(REPLICATIONS, start)
    for step in range(size):
        last = phi * last + noise[:, step]
        series[:, step] = last
    return series


def waits(load: float, size: int, seed: int) -> np.ndarray:
    """Waiting times of an M/M/1 queue with service rate 1, from an empty one on (Lindley's recursion)."""
    draw = np.random.default_rng(seed)
    service, gap = draw.exponential(1.0, (REPLICATIONS, size)), draw.exponential(1 / load, (REPLICATIONS, size))
    series = np.zeros((REPLICATIONS, size))
    for step in range(1, size):
        series[:, step] = np.maximum(0.0, series[:, step - 1] + service[:, step - 1] - gap[:, step])
    return series


def mean(rows: np.ndarray) -> float:
    return float(rows.mean())


def coverage(series: np.ndarray, truth: float, statistic=mean, least: int = 10) -> float:
    found = [of_sections(row, statistic, least) for row in series]
    return float(np.mean([abs(each.value - truth) <= each.half for each in found]))


def test_replicates_are_students_t():
    from scipy.stats import t

    values = [3.1, 2.9, 3.4, 3.0]
    low, high = t.interval(0.9, 3, np.mean(values), np.std(values, ddof=1) / 2)
    found = of_replicates(values, 0.9)
    assert (found.value - found.half, found.value + found.half) == pytest.approx((low, high))


def test_one_replicate_has_no_interval():
    assert of_replicates([3.0]) == Interval(3.0, None, 1)


def test_sections_that_are_not_skewed_are_batch_means():
    from scipy.stats import t

    means = np.random.default_rng(5).permutation(20) - 9.5  # symmetric about 0
    found = of_sections(np.repeat(means, 20), mean)
    assert found.parts == 20 and found.value == pytest.approx(0.0)
    assert found.half == pytest.approx(t.ppf(0.975, 19) * means.std(ddof=1) / np.sqrt(20))


def test_skewed_sections_take_the_longer_side_of_willinks_interval():
    from scipy.stats import skew

    values, t = np.array([1.0, 1.0, 1.0, 2.0, 1.0, 9.0, 1.0, 1.0, 3.0, 1.0]), 2.262157
    a = skew(values, bias=False) / (6 * np.sqrt(10))
    upper = (1 - np.cbrt(1 + 6 * a * (-t - a))) / (2 * a)  # of a positive skewness the upper side is the longer
    assert longer_side(values, t) == pytest.approx(upper) and upper > t
    assert longer_side(-values, t) == pytest.approx(upper)
    assert longer_side(np.array([1.0, -1.0, 1.0, -1.0]), t) == t


def test_what_a_few_stretches_make_is_covered_better_than_by_plain_batch_means():
    # Bursts: 1 of 300 values is 100. The mean is 1/3.
    bursts = (np.random.default_rng(11).random((REPLICATIONS, 4000)) < 1 / 300) * 100.0
    plain = []
    for row in bursts:
        means = row.reshape(20, -1).mean(axis=1)
        plain.append(abs(row.mean() - 1 / 3) <= 2.093 * means.std(ddof=1) / np.sqrt(20))
    assert coverage(bursts, 1 / 3) > np.mean(plain) and coverage(bursts, 1 / 3) >= 0.93


@pytest.mark.parametrize(("phi", "size"), [(0.0, 400), (0.5, 2000), (0.8, 5000)])
def test_intervals_cover_the_mean_of_an_autoregression(phi, size):
    assert 0.91 <= coverage(ar1(phi, size, seed=1), 0.0) <= 0.98


def test_intervals_that_ignore_correlation_would_not():
    rows = ar1(0.8, 5000, seed=1)
    naive = 1.96 * rows.std(axis=1, ddof=1) / np.sqrt(rows.shape[1])
    assert np.mean(np.abs(rows.mean(axis=1)) <= naive) < 0.6


def test_intervals_cover_the_99th_percentile_of_an_autoregression():
    from scipy.stats import norm

    truth = norm.ppf(0.99) / np.sqrt(1 - 0.5**2)  # stationary variance 1 / (1 - phi^2)
    found = coverage(ar1(0.5, 6000, seed=2), truth, lambda rows: float(np.percentile(rows, 99)), least=100)
    assert 0.9 <= found <= 0.99


def test_intervals_cover_the_mean_wait_of_a_queue():
    # M/M/1: mean wait rho / (mu - lambda); rho = 0.5: 1
    assert 0.88 <= coverage(waits(0.5, 4000, seed=3), 1.0) <= 0.98


def test_paired_sections_cover_a_difference_and_are_narrower():
    shared = ar1(0.8, 3000, seed=4)
    own = np.random.default_rng(6).standard_normal(shared.shape) * 0.3 + 0.05  # the second is higher by 0.05
    paired = [of_sections(row, mean) for row in own]
    apart = [of_independent(of_sections(a, mean), of_sections(a + b, mean)) for a, b in zip(shared, own, strict=True)]
    assert 0.91 <= np.mean([abs(each.value - 0.05) <= each.half for each in paired]) <= 0.98
    assert np.mean([each.half for each in paired]) < 0.1 * np.mean([each.half for each in apart])


def test_a_run_too_short_for_its_correlation_says_so():
    assert np.mean([of_sections(row, mean).correlated for row in ar1(0.999, 1000, seed=7)]) > 0.5
    assert np.mean([of_sections(row, mean).correlated for row in ar1(0.0, 1000, seed=7)]) < 0.05


def test_too_few_for_an_interval():
    assert of_sections(np.arange(49.0), mean).half is None
    assert of_sections(np.arange(50.0), mean).parts == 5
    assert of_sections(np.arange(400.0), mean, least=100).half is None


def test_equal_values_have_an_interval_of_no_width():
    assert of_sections(np.zeros(1000), mean) == Interval(0.0, 0.0, 20, False)


def test_mser5_by_hand():
    # 20 batches of 5: the first two are 10, the rest alternate around 0 by 1: leaving out both is best.
    means = np.array([10.0, 10.0, *[1.0, -1.0] * 9])
    errors = [((means[d:] - means[d:].mean()) ** 2).sum() / (20 - d) ** 2 for d in range(11)]
    assert int(np.argmin(errors)) == 2
    assert mser5(np.repeat(means, 5)) == Truncation(10, True)


def test_mser5_removes_what_an_autoregression_keeps_of_its_start():
    series = ar1(0.9, 2000, seed=8, start=40.0)
    cut = [mser5(row).observations for row in series]
    assert 20 < np.median(cut) < 60  # 0.9^d * 40 falls below the noise of the batches near d = 30
    biased = series.mean()
    unbiased = np.mean([row[left:].mean() for row, left in zip(series, cut, strict=True)])
    assert abs(unbiased) < 0.2 * abs(biased)


def test_mser5_of_a_stationary_series_leaves_out_little_and_of_a_growing_one_finds_nothing():
    assert np.mean([mser5(row).observations for row in ar1(0.5, 2000, seed=9)]) < 200
    assert mser5(np.arange(1000.0)) == Truncation(0, False)
    assert mser5(np.zeros(1000)) == Truncation(0, True)
    assert mser5(np.arange(99.0)) == Truncation(0, False)


def test_in_the_system_by_hand():
    requests = {"arrival_s": np.array([0.0, 3.0, 1.0, np.nan]), "finish_s": np.array([2.0, np.nan, 3.0, np.nan])}
    order = arrival_order(requests)
    assert order.tolist() == [0, 2, 1]
    assert in_system(requests, order).tolist() == [0, 1, 0]  # at 1 the first is there; at 3 both have gone
