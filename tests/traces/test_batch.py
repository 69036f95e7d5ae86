"""`batch` against what was measured of ServeGen's language/m-mid."""

import math

import numpy as np
import pytest
from scipy.stats import weibull_min

from tests.traces.generated import assert_shorter_is_a_beginning, published
from traces import open_trace
from traces.statistics import statistics


@pytest.mark.parametrize("options", [{}, {"job_size": 30}, {"rate": 20.0}])
def test_a_shorter_trace_is_the_beginning_of_a_longer_one(options):
    assert_shorter_is_a_beginning("batch", **options)


def test_lengths_have_the_published_quantiles():
    """The means within 8 %: what lies between the published percentiles is interpolated."""
    real = published("servegen")["language/m-mid"]["length_mix"]
    ours = statistics(open_trace("batch", num_requests=200_000))
    for name in ("prompt_tokens", "output_tokens"):
        theirs = real[name.replace("prompt", "input")]
        for percentile in ("p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99"):
            assert ours[name][percentile] == pytest.approx(theirs[percentile], rel=0.03, abs=1), (name, percentile)
        assert ours[name]["mean"] == pytest.approx(theirs["mean"], rel=0.08)


def test_gaps_are_weibull_of_the_published_shape():
    """The critical distance of 20,000 gaps at 1 % is 0.0115; sums of gaps have lost the shortest, which are below 1 ns."""
    shape = published("servegen")["language/m-mid"]["weibull_shape_w"][2]
    gaps = np.sort(np.diff(open_trace("batch", num_requests=20_001).arrival_s))
    theirs = weibull_min(shape, scale=1 / math.gamma(1 + 1 / shape)).cdf(gaps)
    ours = np.arange(1, len(gaps) + 1) / len(gaps)
    assert np.abs(ours - theirs)[gaps > 1e-9].max() < 0.0115


def test_jobs_come_at_once_and_make_the_rate():
    trace = open_trace("batch", num_requests=50_000, job_size=25)
    times, counts = np.unique(trace.arrival_s, return_counts=True)
    assert set(counts.tolist()) == {25}
    assert len(trace) / trace.arrival_s[-1] == pytest.approx(1, rel=0.1)  # 2,000 jobs: standard error 2 %


@pytest.mark.parametrize("size", [0, -3, 1.5, True])
def test_a_job_of_no_requests_is_refused(size):
    with pytest.raises(ValueError, match="trace.job_size is"):
        open_trace("batch", job_size=size)
