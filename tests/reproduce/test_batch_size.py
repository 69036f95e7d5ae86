"""Batch size: the knee by hand, times of a step by hand, and the shape of the curve."""

import pytest

from twin.reproduce.batch_size import _gpustack, _grows, _knee, at_once, knee, rate_and_tpot
from twin.reproduce.experiment import load
from twin.reproduce.running import simulate


def test_the_knee_by_hand():
    """An A100's data sheet: 312 TFLOPS x 2 bytes / (2 x 2.039 TB/s) = 153 sequences in bf16; int8 weights: half."""
    assert knee(312e12, 2.039e12, 2) == pytest.approx(153.0, abs=0.05)
    assert knee(312e12, 2.039e12, 1) == pytest.approx(76.5, abs=0.05)


def test_rate_and_time_of_a_batch_by_hand():
    """10 ms a step and 0.4 ms a sequence: 16 take 16.4 ms a token; 5 tokens each in 5 steps, the first a prompt."""
    experiment = load("batch_size", ["jobs=1"])
    server = {
        "system": "textbook",
        "model": "tiny",
        "latency": "linear",
        "latency.base_s": 0.01,
        "latency.per_seq_s": 0.0004,
    }
    [(rate, tpot_s)] = simulate(experiment, [server | at_once(16, 8, 5)], rate_and_tpot)
    assert tpot_s == pytest.approx(0.0164)
    assert rate == pytest.approx(16 / 0.0164)


def test_the_curve_is_flat_below_the_knee_and_linear_beyond():
    assert all(figure.direction for figure in _knee(load("batch_size", ["batches=[1,32,512,1024]", "jobs=1"])))


def test_more_clients_have_more_throughput_and_slower_tokens():
    assert all(figure.direction for figure in _gpustack(load("batch_size", ["requests=24", "output_tokens=60", "jobs=1"])))


@pytest.mark.parametrize(
    ("values", "sublinear", "holds"),
    [([1, 1.9, 3.6], True, True), ([1, 2, 3.6], True, False), ([1, 2, 3.6], False, True), ([1, 0.9, 3.6], False, False)],
)
def test_growth_by_less_than_the_batch(values, sublinear, holds):
    assert _grows(values, [1, 2, 4], sublinear) is holds
