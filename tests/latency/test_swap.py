"""The cost of swapping blocks."""

import pytest

from twin.latency.swap import swap_seconds

TOKEN_BYTES = 819_200  # OPT-13B: 2 * 40 layers * 40 heads * 128 * 2 bytes
PER_COPY_S = 10e-6 * 40 * 2  # 10 us for each layer's keys and for its values


def test_swap_costs_bytes_over_bandwidth_and_a_cost_a_copy_both_ways():
    """swap-05: 64 blocks of 16 tokens over 25 GB/s."""
    bandwidth = 25e9 / 2**30
    seconds = swap_seconds(64, 16 * TOKEN_BYTES, bandwidth, PER_COPY_S)
    assert seconds == pytest.approx(2 * 64 * (16 * TOKEN_BYTES / 25e9 + PER_COPY_S))
    assert seconds == pytest.approx(0.1695, abs=1e-4)


def test_the_same_bytes_swap_faster_in_larger_blocks():
    """swap-05: figure 19 of PagedAttention: small blocks are bad for swapping, recomputation does not care."""
    times = [swap_seconds(1024 // size, size * TOKEN_BYTES, 25.0, PER_COPY_S) for size in (1, 2, 4, 8, 16, 32, 64, 128)]
    assert times == sorted(times, reverse=True)
    assert times[0] > 10 * times[-1]
    recompute_s = 0.145  # a prompt of 1,024 tokens of OPT-13B on an A100: 2 * 12.85e9 * 1,024 / (312e12 * 0.58)
    for size in (16, 32, 64):
        assert 0.3 < swap_seconds(1024 // size, size * TOKEN_BYTES, 25.0, PER_COPY_S) / recompute_s < 1.5


def test_a_free_link_and_no_blocks_cost_nothing():
    assert swap_seconds(100, 16 * TOKEN_BYTES, None) == 0.0
    assert swap_seconds(0, 16 * TOKEN_BYTES, 25.0, PER_COPY_S) == 0.0


@pytest.mark.parametrize("arguments", [(1, 100, 0.0, 0.0), (1, 100, -1.0, 0.0), (1, 100, 1.0, -1.0), (-1, 100, 1.0, 0.0)])
def test_wrong_values_are_refused(arguments):
    with pytest.raises(ValueError, match="swap"):
        swap_seconds(*arguments)
