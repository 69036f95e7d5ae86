"""Ranking by learned order: figure 1 by hand, answers by their quantiles, a known ranking against none."""

import numpy as np
import pytest

from twin.reproduce.experiment import load
from twin.reproduce.ltr_kendall import _chat, _data, _figure_1, requests_of


def test_figure_1_by_hand():
    """10, 2 and 1 tokens of a second: in order (10/10 + 12/2 + 13/1) / 3; shortest first (13/10 + 3/2 + 1/1) / 3."""
    fcfs, shortest = _figure_1(load("ltr_kendall"))
    assert fcfs.ours == f"{(1 + 6 + 13) / 3:.2f} s/token"
    assert shortest.ours == f"{(1.3 + 1.5 + 1) / 3:.2f} s/token"
    assert fcfs.size and shortest.size


def test_answers_have_the_published_quantiles_and_prompts_the_mean_of_their_law():
    """A lognormal law's mean is its median times exp(sigma² / 2)."""
    values = load("ltr_kendall").values
    table = requests_of(values, 40_000)
    quantiles = values["length_quantiles"]
    assert np.quantile(table["output_tokens"], [0.25, 0.5, 0.75]) == pytest.approx(quantiles[5::5][:3], abs=4)
    assert np.mean(table["prompt_tokens"]) == pytest.approx(30 * np.exp(1.3**2 / 2), rel=0.05)


def test_a_better_ranking_is_faster_and_more_so_above_saturation():
    words = ["rates=[40]", "duration_s=12", "taus=[0.01,1.0]", "options.scheduler.max_num_seqs=16", "jobs=1"]
    gain, by_tau = _chat(load("ltr_kendall", words))
    assert gain.direction and by_tau.direction


def test_shortest_of_a_pool_come_first():
    words = ["pool_requests=300", "options.scheduler.max_num_seqs=16", "jobs=1"]
    ranked, known = _data(load("ltr_kendall", words))
    assert ranked.direction
    assert float(known.ours.split()[0]) > float(ranked.ours.split()[0])
