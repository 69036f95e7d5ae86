"""The random numbers: uniform, independent, and the property of a request alone."""

import hashlib

import numpy as np
import pytest
from scipy import stats

from traces.streams import Stream

INDEX = np.arange(100_000)
LEVEL = 1e-4  # of each test, so that all of them together seldom fail by chance; the seeds are fixed anyway


@pytest.mark.parametrize("seed", [0, 1, -5, 2**70])
def test_uniforms_are_uniform(seed):
    draws = Stream(seed, "x").uniforms(INDEX)
    assert 0 < draws.min() and draws.max() < 1
    assert stats.kstest(draws, "uniform").pvalue > LEVEL
    assert stats.chisquare(np.bincount((draws * 1000).astype(int), minlength=1000)).pvalue > LEVEL


@pytest.mark.parametrize(
    "other",
    [
        Stream(0, "x").uniforms(INDEX + 1),  # the next request
        Stream(0, "x").uniforms(INDEX, draw=1),
        Stream(0, "y").uniforms(INDEX),
        Stream(1, "x").uniforms(INDEX),
    ],
    ids=["index", "draw", "purpose", "seed"],
)
def test_streams_that_differ_in_one_thing_are_independent(other):
    draws = Stream(0, "x").uniforms(INDEX)
    cells = np.bincount((draws * 30).astype(int) * 30 + (other * 30).astype(int), minlength=900)
    assert stats.chisquare(cells).pvalue > LEVEL
    assert abs(np.corrcoef(draws, other)[0, 1]) < 4 / np.sqrt(len(INDEX))


def test_a_number_depends_on_its_index_alone():
    stream = Stream(3, "x")
    for draw in (stream.uniforms, stream.normals, stream.exponentials, lambda index: stream.gammas(index, 0.25)):
        whole = draw(np.arange(1000))
        assert draw(np.arange(100)).tolist() == whole[:100].tolist()
        shuffled = np.random.default_rng(0).permutation(1000)
        assert draw(shuffled).tolist() == whole[shuffled].tolist()


def test_known_answer_of_splitmix64():
    """The first outputs of splitmix64 from state 0, as Vigna's reference code gives them."""
    stream = Stream(0, "x")
    key = int.from_bytes(hashlib.blake2b(b"0/x/0", digest_size=8).digest(), "little")
    golden = 0x9E3779B97F4A7C15
    back = -key * pow(golden, -1, 2**64) % 2**64  # the index at which the counter is 0 + golden
    words = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    expected = [((word >> 12) + 0.5) / 2**52 for word in words]
    assert stream.uniforms(np.array([(back + k) % 2**64 for k in range(3)], np.uint64)).tolist() == expected


def test_normals_exponentials_and_gammas_have_their_distributions():
    stream = Stream(0, "x")
    assert stats.kstest(stream.normals(INDEX), "norm").pvalue > LEVEL
    assert stats.kstest(stream.exponentials(INDEX), "expon").pvalue > LEVEL
    for shape in (0.25, 0.5, 1, 2.5, 40):
        assert stats.kstest(stream.gammas(INDEX, shape), "gamma", (shape,)).pvalue > LEVEL
