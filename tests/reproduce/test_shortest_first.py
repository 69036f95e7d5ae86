"""Shortest first: the published gains are the closed form's, a small batch by hand, and SSJF's simulator in small."""

import numpy as np
import pytest

from tests.theory.closed_forms import fcfs_over_srpt
from twin.reproduce.experiment import load
from twin.reproduce.own_trace import folder_of
from twin.reproduce.running import simulate
from twin.reproduce.shortest_first import _one_server, _ssjf, finished, jobs


def test_the_published_gains_are_those_of_the_closed_form():
    published = load("shortest_first").published
    for each, gain in zip(published["loads"], published["gains"], strict=True):
        assert fcfs_over_srpt(each) == pytest.approx(gain, abs=0.005)


def test_gains_grow_with_the_load():
    figures = _one_server(load("shortest_first", ["requests=1500", "jobs=1"]))
    assert all(figure.direction for figure in figures)


def test_three_jobs_of_ssjfs_simulator_by_hand():
    """0.1 s and 0.02 s a token, one at a time, all at 0: 0.3, 0.2, 0.7 s long. Done at 0.3, 0.5, 1.2, or 0.2, 0.5, 1.2."""
    table = {"arrival_s": [0, 0, 0], "prompt_tokens": [1, 1, 1], "output_tokens": [10, 5, 30]}
    server = {"system": "textbook", "latency": "linear", "latency.base_s": 0.02, "latency.mixed_s": 0.1}
    experiment = load("shortest_first", ["jobs=1"])
    with folder_of({"three": table}) as play:
        shared = server | play["three"] | {"scheduler.max_num_seqs": 1}
        variants = [shared | {"policy": "fcfs"}, shared | {"policy": "sjf", "predictor": "oracle"}]
        fcfs, sjf = simulate(experiment, variants, finished)
    assert fcfs == (pytest.approx(2.0 / 3), pytest.approx([0.3, 0.5, 1.2]))
    assert sjf == (pytest.approx(1.9 / 3), pytest.approx([0.2, 0.5, 1.2]))


def test_jobs_have_the_lengths_and_whole_seconds_of_ssjfs_simulator():
    """The mean of a piecewise linear quantile function is the mean of the middles."""
    experiment = load("shortest_first", ["jobs_a_run=20000"])
    table = jobs(experiment, 5, 0)
    quantiles = experiment.values["length_quantiles"]
    middles = [(low + high) / 2 for low, high in zip(quantiles, quantiles[1:], strict=False)]
    assert np.mean(table["output_tokens"]) == pytest.approx(np.mean(middles), rel=0.02)
    assert max(table["arrival_s"]) == pytest.approx(20000 / 5, rel=0.03)
    assert all(isinstance(second, int) for second in table["arrival_s"])


def test_predictions_gain_less_than_lengths_and_throughput_is_only_that_of_the_first():
    ssjf, first, known, _, all_done = _ssjf(load("shortest_first", ["rates=[5]", "repeats=3", "jobs=1"]))
    assert ssjf.direction and first.direction
    assert float(known.ours.split()[0]) < float(ssjf.ours.split()[0]) < 0
    assert all_done.ours == "1.00 x"
