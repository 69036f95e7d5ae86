"""Chunked prefill: the stall by hand, rows of tiles, lengths by their quantiles, a capacity that is known."""

import numpy as np
import pytest

from twin.reproduce.chunked_prefill import _stall, _table_4, _tiles, greatest_rates, padded, requests_of
from twin.reproduce.experiment import load


def test_the_stall_by_hand():
    """Steps of 10 ms + 1 ms a token: A's 4 tokens end at 14, its decodes at 25, 36, ...; B comes at 15 and is taken at 25.

    Prompts first: B's 20 tokens take 30 ms alone, until 55, then both decode, 12 ms: A waits from 25 to 67. Chunks of 8
    tokens a step with A's: 7, 7 and 6 of B, 18, 18 and 17 ms: until 78, and A waits for 18 at most.
    """
    figures = _stall(load("chunked_prefill"))
    assert [figure.ours for figure in figures] == ["42 ms", "18 ms", "55 ms", "78 ms"]
    assert all(figure.direction and figure.size for figure in figures)


def test_a_row_more_than_whole_tiles_costs_a_tile():
    assert [padded(257, tile) for tile in (64, 128, 256)] == [320, 384, 512]
    assert [padded(256, tile) for tile in (64, 128, 256)] == [256, 256, 256]


def test_the_roofline_has_no_tiles():
    """One row of 257 more: less than half of a hundredth, for the weights are read either way."""
    chunk, tiles = _tiles(load("chunked_prefill", ["jobs=1"]))
    assert chunk.direction and not chunk.size
    assert 0 < float(chunk.ours.rstrip("%")) < 0.5
    assert tiles.ours == "+25%, +50%, +100%"


def test_lengths_go_through_the_published_quantiles():
    """Without a longest sum; with one, nothing is above it."""
    free = requests_of([1730, 5696, 415, 834, 10**9], 20_000, 1.0)
    for name, median, p90 in (("prompt_tokens", 1730, 5696), ("output_tokens", 415, 834)):
        assert np.quantile(free[name], [0.5, 0.9]) == pytest.approx([median, p90], rel=0.03)
    cut = requests_of([1730, 5696, 415, 834, 8192], 2000, 1.0)
    assert max(np.add(cut["prompt_tokens"], cut["output_tokens"])) <= 8192


def test_whole_prompts_in_the_batch_give_first_tokens_earlier_and_longer_tails():
    words = ["table_4_requests=40", "jobs=1"]
    assert all(figure.direction for figure in _table_4(load("chunked_prefill", words)))


def test_a_capacity_that_is_known_is_found():
    """One seat, a second (two steps) a request, M/D/1: above 1/s the queue grows without end, below 0.5/s it is short.

    Half of the requests wait less than 2 s as long as load / (2 (1 - load)), the mean, is well below: at 0.75 it is 1.5 s.
    """
    experiment = load("chunked_prefill", ["requests=1500", "rates=[0.1,4.0]", "jobs=1"])
    server = {"system": "textbook", "latency": "linear", "latency.base_s": 0.5, "scheduler.max_num_seqs": 1}
    server |= {"scheduler.max_num_batched_tokens": 64}
    (rate,) = greatest_rates(experiment._replace(options={}), [server], [1e9], [1, 1.0001, 2, 2.0001, 64])
    assert 0.6 < rate < 1.0
