"""Statistics of small traces, worked out by hand, and of known processes."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from traces import Trace, open_trace
from traces.statistics import fano, spearman, statistics


def test_a_trace_by_hand():
    trace = Trace("t", np.array([0.0, 1.0, 4.0]), np.array([10, 20, 60]), np.array([3, 2, 1]))
    result = statistics(trace)
    assert result["rate"] == 0.5 and result["duration_s"] == 4 and result["gap_max_s"] == 3
    assert result["gap_cv"] == pytest.approx(0.5)  # gaps 1 and 3: deviation 1, mean 2
    assert result["prompt_tokens"]["mean"] == 30 and result["prompt_tokens"]["p50"] == 20
    assert result["spearman"] == pytest.approx(-1)
    assert result["fano_10s"] is None


def test_fano_by_hand():
    arrivals = np.array([0, 1, 2, 10, 30.5])  # three whole windows of 10 s with 3, 1 and 0 arrivals
    assert fano(arrivals, 10) == pytest.approx(((3 - 4 / 3) ** 2 + (1 - 4 / 3) ** 2 + (4 / 3) ** 2) / 3 / (4 / 3))


def test_a_poisson_process_has_fano_1_and_cv_1():
    result = statistics(open_trace("synthetic", arrivals="poisson(8)", num_requests=200_000))
    assert result["gap_cv"] == pytest.approx(1, abs=0.01)
    assert result["fano_10s"] == pytest.approx(1, abs=4 * np.sqrt(2 / 2500))  # 2,500 windows


def test_spearman_is_scipys_with_ties():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 9, 500), rng.integers(0, 9, 500)
    assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic)
    assert spearman(first, np.ones(500)) is None


def test_bursts_and_closed_loops_have_no_rate():
    assert statistics(open_trace("synthetic", arrivals="burst()", num_requests=9))["rate"] is None
    assert "rate" not in statistics(open_trace("synthetic", arrivals="closed(3)", num_requests=9))
    shared = statistics(open_trace("synthetic", num_requests=9, prefix_tokens=100, prompt_tokens=100))
    assert shared["shareable_fraction"] == 0.5
