"""`code` against its source. Published with the fit: Kolmogorov-Smirnov distances of 0.021 (prompts, total) and 0.014
(outputs), and, for independent gaps within bursts, medians of 51 and 128 (Fano factors) and 0.15 (autocorrelation)."""

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


@pytest.fixture(scope="module")
def code():
    return open_trace("code", num_requests=200_000)


@pytest.fixture(scope="module")
def source():
    return open_trace("file", str(shared("traces", "azure_llm_2023", "AzureLLMInferenceTrace_code.csv")))


def test_the_tables_are_quantile_functions():
    assert_tables_are_quantile_functions("code")


def test_a_shorter_trace_is_the_beginning_of_a_longer_one():
    assert_shorter_is_a_beginning("code")
    assert_shorter_is_a_beginning("code", rate=10.0)


def test_lengths_have_the_distributions_of_the_source(code, source):
    assert ks_2samp(code.prompt_tokens, source.prompt_tokens).statistic < 0.025
    assert ks_2samp(code.output_tokens, source.output_tokens).statistic < 0.02
    ours, theirs = code.prompt_tokens + code.output_tokens, source.prompt_tokens + source.output_tokens
    assert ks_2samp(ours, theirs).statistic < 0.025


def test_lengths_have_the_published_quantiles(code):
    assert_published_quantiles(code, published("azure2023_code"), 0.05, ("p10", "p25", "p50", "p75", "p90", "p95", "mean"))


def test_arrivals_are_as_bursty_as_the_published_source():
    """The hour has 96 bursts: a tenth is the standard error of what it shows of the variance in 60 s and more."""
    real = published("azure2023_code")
    median = assert_among_generated_hours("code", real)
    assert median["fano_10s"] == pytest.approx(real["fano_10s"], rel=0.1)
    assert 128 < median["fano_60s"] < 180
    assert median["acf_60s"] == pytest.approx(real["acf_60s"]["1"], abs=0.06)
    assert median["rate"] == pytest.approx(real["rate"], rel=0.05)
    assert median["gap_cv"] == pytest.approx(real["gap_cv"], rel=0.1)


def test_gaps_have_the_distribution_of_the_source(code, source):
    assert ks_2samp(np.diff(code.arrival_s), np.diff(source.arrival_s)).statistic < 0.03
