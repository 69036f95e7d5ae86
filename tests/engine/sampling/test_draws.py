"""The numbers behind sampled tokens: their key, their values, their distribution."""

import numpy as np
import pytest
from scipy import stats

from engine.sampling import draws
from twin import keyed_draws


def test_the_mixing_is_that_of_splitmix64() -> None:
    """The first three outputs of splitmix64 seeded with 0, as published with its reference implementation."""
    outputs = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    states = [gamma * keyed_draws.GOLDEN_GAMMA & keyed_draws.MASK for gamma in range(3)]
    assert draws.uniforms(states, [0, 0, 0]).tolist() == [((x >> 12) + 0.5) * 2.0**-52 for x in outputs]


def test_a_position_is_mixed_in_as_a_word_of_an_id_is() -> None:
    stream = draws.stream(1, "r0")
    one_by_one = [keyed_draws.uniform(stream, chr(position)) for position in range(1, 128)]
    assert draws.uniforms([stream] * 127, range(1, 128)).tolist() == one_by_one


def test_the_least_and_the_largest_number_lie_within_0_and_1() -> None:
    """52 bits of 0 give 2^-53, 52 bits of 1 give 1 - 2^-53, the largest double below 1."""
    assert (0 + 0.5) * 2.0**-52 == 2.0**-53
    assert ((2**52 - 1) + 0.5) * 2.0**-52 == np.nextafter(1, 0)


def test_a_draw_is_the_same_in_any_batch_and_after_a_preemption() -> None:
    streams = [draws.stream(3, f"r{i}") for i in range(8)]
    together = draws.uniforms(streams, range(100, 108))
    assert [draws.uniforms([s], [100 + i])[0] for i, s in enumerate(streams)] == together.tolist()
    anew = draws.uniforms([draws.stream(3, "r5"), draws.stream(3, "r2")], [105, 102])
    assert anew.tolist() == [together[5], together[2]]


@pytest.mark.parametrize("other", [(2, "r0", 0), (1, "r1", 0), (1, "r0", 1), (1, "r0/0", 0), (1, "r", 0)])
def test_each_seed_request_and_sample_has_its_own_stream(other: tuple[int, str, int]) -> None:
    positions = range(1000)
    mine = draws.uniforms([draws.stream(1, "r0", 0)] * 1000, positions)
    theirs = draws.uniforms([draws.stream(*other)] * 1000, positions)
    assert abs(np.corrcoef(mine, theirs)[0, 1]) < 0.15 and not (mine == theirs).any()


def test_ids_that_look_like_samples_do_not_meet() -> None:
    streams = {draws.stream(1, id, sample) for id in ("a", "a/1", "a/1/1", "a/11") for sample in (0, 1, 11)}
    assert len(streams) == 12


def test_draws_are_uniform_along_a_sequence_and_across_sequences() -> None:
    along = draws.uniforms([draws.stream(0, "r")] * 20_000, range(20_000))
    across = draws.uniforms([draws.stream(0, f"r{i}") for i in range(20_000)], [7] * 20_000)
    for drawn in (along, across):
        assert stats.kstest(drawn, "uniform").pvalue > 0.001
    assert abs(np.corrcoef(along[1:], along[:-1])[0, 1]) < 4 / np.sqrt(20_000)  # four standard errors
