"""`summarize` and `long_context` against what was measured of their sources, whose rows are not in the real data."""

import pytest

from tests.traces.generated import (
    assert_published_quantiles,
    assert_shorter_is_a_beginning,
    assert_tables_are_quantile_functions,
    published,
)
from traces import open_trace
from traces.statistics import statistics

SOURCES = {"summarize": "arxiv_summarization", "long_context": "mooncake_synthetic"}


@pytest.mark.parametrize("name", SOURCES)
def test_the_tables_are_quantile_functions(name):
    assert_tables_are_quantile_functions(name)


@pytest.mark.parametrize("name", SOURCES)
def test_a_shorter_trace_is_the_beginning_of_a_longer_one(name):
    assert_shorter_is_a_beginning(name)


@pytest.mark.parametrize("name", SOURCES)
def test_lengths_have_the_published_quantiles(name):
    """The outputs' means within 5 %: their quantiles are linear between 0.99 and the largest."""
    names = ("p10", "p25", "p50", "p75", "p90", "p95", "mean")
    assert_published_quantiles(open_trace(name, num_requests=200_000), published(SOURCES[name]), 0.05, names)


def test_arrivals_are_poisson_at_the_published_rate():
    """Fano factors of Poisson arrivals are 1; those of 200,000 requests in 60 s have a standard error of 0.05."""
    real, ours = published("mooncake_synthetic"), statistics(open_trace("long_context", num_requests=200_000))
    assert ours["rate"] == pytest.approx(real["rate"], rel=0.01)
    assert ours["fano_60s"] == pytest.approx(1, abs=0.2)
