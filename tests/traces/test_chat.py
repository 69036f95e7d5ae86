"""`chat` against its source, by figures of the source and against the source itself.

Tolerances: the fit was published with Kolmogorov-Smirnov distances of 0.034 (prompts) and 0.020 (outputs); the two
halves of the source itself differ by 0.081 and 0.093.
"""

import json

import numpy as np
import pytest
from scipy.stats import ks_2samp

from tests.shared import shared
from traces import open_trace
from traces.generators.chat import modulation
from traces.generators.chat_fit import OUTPUT_LEVELS, OUTPUT_TOKENS, PROMPT_LEVELS, PROMPT_TOKENS
from traces.statistics import statistics


@pytest.fixture(scope="module")
def chat():
    return open_trace("chat", num_requests=200_000)


@pytest.fixture(scope="module")
def source():
    return open_trace("file", str(shared("traces", "azure_llm_2023", "AzureLLMInferenceTrace_conv.csv")))


def test_the_tables_are_quantile_functions():
    for levels, quantiles in [(PROMPT_LEVELS, PROMPT_TOKENS), *((OUTPUT_LEVELS, row) for row in OUTPUT_TOKENS)]:
        assert len(levels) == len(quantiles) and (levels[0], levels[-1]) == (0, 1)
        assert np.all(np.diff(levels) > 0) and np.all(np.diff(quantiles) >= 0) and quantiles[0] >= 1
    assert len(OUTPUT_TOKENS) == 16


def test_lengths_have_the_distributions_of_the_source(chat, source):
    assert ks_2samp(chat.prompt_tokens, source.prompt_tokens).statistic < 0.034
    assert ks_2samp(chat.output_tokens, source.output_tokens).statistic < 0.020
    ours, theirs = chat.prompt_tokens + chat.output_tokens, source.prompt_tokens + source.output_tokens
    assert ks_2samp(ours, theirs).statistic < 0.032
    ratio = chat.output_tokens / chat.prompt_tokens, source.output_tokens / source.prompt_tokens
    assert ks_2samp(*ratio).statistic < 0.031
    assert ks_2samp(np.diff(chat.arrival_s), np.diff(source.arrival_s)).statistic < 0.035


def test_lengths_have_the_published_quantiles(chat):
    real = json.loads(shared("reference", "stats.json").read_text())["azure2023_conv"]
    ours = statistics(chat)
    for column, key in (("prompt_tokens", "input"), ("output_tokens", "output")):
        for name in ("p10", "p25", "p50", "p75", "p90", "p95", "p99", "mean"):
            assert ours[column][name] == pytest.approx(real[key][name], rel=0.04), (column, name)
    assert ours["spearman"] == pytest.approx(real["spearman_in_out"], abs=0.03)


def test_arrivals_are_as_bursty_as_the_published_source():
    """The source is one hour: its burstiness must lie among those of 100 generated hours, between the 2nd and 98th."""
    real = json.loads(shared("reference", "stats.json").read_text())["azure2023_conv"]
    hours = [statistics(open_trace("chat", num_requests=real["n"], seed=seed)) for seed in range(100)]
    for name in ("rate", "fano_10s", "fano_60s"):
        low, high = np.percentile([hour[name] for hour in hours], [2, 98])
        assert low < real[name] < high, name
    assert np.median([hour["gap_cv"] for hour in hours]) == pytest.approx(real["gap_cv"], rel=0.07)


def test_the_intensity_has_mean_1_and_the_correlation_of_the_fit():
    """AR(1) with lag-1 correlation 0.881 and standard deviation 0.211 per minute; the residual's is 0.056."""
    levels = np.log([modulation(seed, 12) for seed in range(4000)])
    minutes = levels.reshape(4000, 2, 6).mean(axis=2)
    assert np.exp(levels).mean() == pytest.approx(1, abs=0.01)
    assert levels.std() == pytest.approx(np.hypot(0.2107, 0.0562), rel=0.03)
    assert np.corrcoef(minutes.T)[0, 1] == pytest.approx(0.881, abs=0.02)


def test_the_statistics_of_the_source_are_the_published_ones(source):
    real = json.loads(shared("reference", "stats.json").read_text())["azure2023_conv"]
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
    for name in ("p1", "p50", "p99", "mean", "max"):
        assert ours["prompt_tokens"][name] == pytest.approx(real["input"][name])
        assert ours["output_tokens"][name] == pytest.approx(real["output"][name])
