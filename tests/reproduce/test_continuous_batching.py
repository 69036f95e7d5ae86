"""Static against continuous batching: the late request by hand, draws by their law, and which system is faster."""

import numpy as np
import pytest

from twin.reproduce.continuous_batching import draw_outputs, run
from twin.reproduce.experiment import load


@pytest.fixture(scope="module")
def figures():
    experiment = load("continuous_batching", ["requests=120", "seeds=1", "jobs=1"])
    return {figure.what: figure for figure in run(experiment)}


def test_late_short_request_by_hand(figures):
    """A (4 steps of 50 ms) and B (one) start together; C, one step, comes as B ends at 50 ms.

    Static: C waits until A ends at 200 ms and is done at 250, 200 ms after it came. Continuous: B's seat is free, one step.
    """
    assert figures["late short request, static batching"].ours == "200 ms"
    assert figures["late short request, continuous batching"].ours == "50 ms"


def test_each_system_of_the_benchmark_is_faster_than_the_one_before(figures):
    ratios = [float(figure.ours.split()[0]) for what, figure in figures.items() if what.startswith("throughput")]
    static, reserved, paged, seats = ratios
    assert 1 < static < reserved < paged and static < seats < reserved
    assert all(figure.direction in (True, None) for figure in figures.values())


def test_static_batches_gain_what_the_longest_of_few_is_shorter_than_the_longest_of_all():
    """The expected longest of n exponential lengths is the mean times the n-th harmonic number."""
    values = load("continuous_batching").values
    outputs = np.stack([draw_outputs(values | {"longest": 10**6}, seed) for seed in range(40)])
    harmonic = [sum(1 / k for k in range(1, n + 1)) for n in (4, values["requests"])]
    assert outputs.max(axis=1).mean() == pytest.approx(128 * harmonic[1], rel=0.06)
    assert outputs.reshape(-1, 4).max(axis=1).mean() == pytest.approx(128 * harmonic[0], rel=0.02)


def test_lengths_above_the_cap_are_drawn_again():
    """Exponential with mean m below a cap c: m - c / (e^(c/m) - 1); with m = c = 128, 128 (1 - 1 / (e - 1)) = 53.5."""
    values = load("continuous_batching").values | {"longest": 128, "requests": 40_000}
    outputs = draw_outputs(values, 0)
    assert outputs.max() <= 128 and outputs.min() >= 1
    assert outputs.mean() == pytest.approx(53.5, abs=0.6)
