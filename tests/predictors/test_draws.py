"""Draws that belong to a request: of (seed, purpose, id) alone, one or many at once."""

import numpy as np
import pytest
from scipy import stats

from twin.keyed_draws import stream, uniform, uniforms

IDS = ["", "0", "7", "12345678", "123456789", "chat-00000017/turn-3", "anfrage-ü", "日本語の依頼", "x" * 40]


def test_the_mixing_is_that_of_splitmix64():
    """The first two numbers that the authors' C program gives for the seed 1234567."""
    first, second = 6457827717110365317, 3203168211198807973
    assert uniform(1234567, "") == ((first >> 12) + 0.5) / 2**52
    golden_gamma = 0x9E3779B97F4A7C15
    assert uniform(1234567 + golden_gamma, "") == ((second >> 12) + 0.5) / 2**52


def test_one_and_many_are_the_same_numbers():
    for seed in (0, 1, 2**63 - 1):
        key = stream(seed, "error")
        assert uniforms(key, IDS) == [uniform(key, name) for name in IDS]
    assert uniforms(stream(0, ""), []) == []


def test_what_is_drawn_for_one_does_not_depend_on_who_else_there_is():
    key = stream(3, "error")
    assert uniforms(key, IDS)[1:3] == uniforms(key, ["0", "7"]) == uniforms(key, ["7", "0"])[::-1]


def test_other_seeds_and_purposes_are_other_numbers():
    drawn = [uniform(stream(seed, purpose), "7") for seed in (0, 1, 10) for purpose in ("", "0", "error", "bucket")]
    assert len(set(drawn)) == 12


@pytest.mark.parametrize("seed", [0, 1])
def test_numbered_requests_draw_uniformly_and_independently(seed: int):
    ids = [str(row) for row in range(20_000)]
    one, other = (np.array(uniforms(stream(seed, purpose), ids)) for purpose in ("one", "other"))
    assert 0 < one.min() and one.max() < 1
    assert stats.kstest(one, "uniform").pvalue > 0.001
    for first, second in ((one, other), (one[:-1], one[1:]), (one, np.array(uniforms(stream(seed + 1, "one"), ids)))):
        assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(len(second))
