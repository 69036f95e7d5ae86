"""`chat` against its source, by figures of the source and against the source itself.

Tolerances of lengths: the fit was published with Kolmogorov-Smirnov distances of 0.034 (prompts) and 0.020 (outputs);
the two halves of the source itself differ by 0.081 and 0.093. Burstiness: the process that was published with the fit
(the hour's own log rates) has medians of 2.9 and 12.3 (Fano factors in 10 s and 60 s) and 0.76 (autocorrelation).
"""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from tests.shared import shared
from tests.traces.generated import (
    assert_among_generated_hours,
    assert_published_quantiles,
    assert_shorter_is_a_beginning,
    assert_tables_are_quantile_functions,
    published,
)
from traces import open_trace
from traces.generators.chat import modulation
from traces.statistics import statistics


@pytest.fixture(scope="module")
def chat():
    return open_trace("chat", num_requests=200_000)


@pytest.fixture(scope="module")
def source():
    return open_trace("file", str(shared("traces", "azure_llm_2023", "AzureLLMInferenceTrace_conv.csv")))


def test_the_tables_are_quantile_functions():
    assert_tables_are_quantile_functions("chat")


def test_a_shorter_trace_is_the_beginning_of_a_longer_one():
    assert_shorter_is_a_beginning("chat")


def test_lengths_have_the_distributions_of_the_source(chat, source):
    assert ks_2samp(chat.prompt_tokens, source.prompt_tokens).statistic < 0.034
    assert ks_2samp(chat.output_tokens, source.output_tokens).statistic < 0.020
    ours, theirs = chat.prompt_tokens + chat.output_tokens, source.prompt_tokens + source.output_tokens
    assert ks_2samp(ours, theirs).statistic < 0.032
    ratio = chat.output_tokens / chat.prompt_tokens, source.output_tokens / source.prompt_tokens
    assert ks_2samp(*ratio).statistic < 0.031


def test_lengths_have_the_published_quantiles(chat):
    names = ("p10", "p25", "p50", "p75", "p90", "p95", "p99", "mean")
    assert_published_quantiles(chat, published("azure2023_conv"), 0.04, names)


def test_arrivals_are_as_bursty_as_the_published_source():
    """Medians within a tenth of the source: the standard error of a median of 100 hours is about 6 % (Fano in 60 s)."""
    real = published("azure2023_conv")
    median = assert_among_generated_hours("chat", real)
    assert median["fano_10s"] == pytest.approx(real["fano_10s"], rel=0.1)
    assert median["fano_60s"] == pytest.approx(real["fano_60s"], rel=0.12)
    assert median["acf_60s"] == pytest.approx(real["acf_60s"]["1"], abs=0.02)
    assert median["gap_cv"] == pytest.approx(real["gap_cv"], rel=0.02)


def test_gaps_have_the_distribution_of_the_source(source):
    """At the source's mean rate, which an hour by itself has not: the median distance of 20 hours."""
    hours = [open_trace("chat", num_requests=19_366, seed=seed, rate=5.53014) for seed in range(20)]
    distances = [ks_2samp(np.diff(hour.arrival_s), np.diff(source.arrival_s)).statistic for hour in hours]
    assert np.median(distances) < 0.015


def test_the_intensity_has_mean_1_and_the_correlation_of_the_fit():
    """Minute knots of an AR(1) process, 0.92 and 0.27, and the straight lines between them; the residual's is 0.075.

    Variance in the middle of a line is (1 + 0.92) / 2 of that at its ends, on average over it (2 + 0.92) / 3.
    """
    levels = np.log([modulation(seed, 12) for seed in range(4000)])
    assert np.exp(levels).mean() == pytest.approx(1, abs=0.012)
    assert levels.std() == pytest.approx(np.hypot(0.27 * np.sqrt(2.92 / 3), 0.075), rel=0.03)
    minutes = levels.reshape(4000, 2, 6).mean(axis=2)
    assert 0.92 < np.corrcoef(minutes.T)[0, 1] < 0.96  # the mean of a line is smoother than a knot


def test_the_statistics_of_the_source_are_the_published_ones(source):
    real = published("azure2023_conv")
    ours = statistics(source)
    assert ours["requests"] == real["n"] == 19366
    for name, theirs in (
        ("rate", "rate"),
        ("gap_cv", "gap_cv"),
        ("fano_10s", "fano_10s"),
        ("fano_60s", "fano_60s"),
        ("duration_s", "duration_s"),
        ("spearman", "spearman_in_out"),
    ):
        assert ours[name] == pytest.approx(real[theirs], rel=1e-9), name
    assert ours["acf_60s"] == pytest.approx(real["acf_60s"]["1"], rel=1e-9)
    for name in ("p1", "p50", "p99", "mean", "max"):
        assert ours["prompt_tokens"][name] == pytest.approx(real["input"][name])
        assert ours["output_tokens"][name] == pytest.approx(real["output"][name])
