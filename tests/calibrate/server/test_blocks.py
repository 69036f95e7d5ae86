"""The pool from the tokens that vLLM prints."""

import pytest

from twin.calibrate.server.findings import blocks_of


@pytest.mark.parametrize("version", [(0, 11), (0, 19), (0, 32), None])
def test_where_a_block_size_divides_the_longest_request_all_versions_print_alike(version):
    assert blocks_of(3072, 32, 1024, version) == 96
    assert blocks_of(3071, 32, 1024, version) == 96  # 95.99 requests of 32 blocks, rounded down
    assert blocks_of(3072, 1, 1024, version) == 3072


def test_where_it_does_not_versions_differ():
    """96 blocks of 16; 1,000 tokens are 63 blocks: 96 / 63 x 1,000 = 1,523.8 tokens."""
    assert blocks_of(1523, 16, 1000, (0, 32)) == 96
    assert blocks_of(1536, 16, 1000, (0, 11)) == 96
    assert blocks_of(1523, 16, 1000, (0, 19)) is None


def test_tokens_that_are_no_blocks():
    """Models with several kinds of layers share the pool otherwise."""
    assert blocks_of(3080, 32, 1024, (0, 32)) is None
    assert blocks_of(3072, 0, 1024, (0, 32)) is None
