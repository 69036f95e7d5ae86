"""Sizes of launches, by hand."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from engine.attention.fp8 import FP8  # noqa: E402
from engine.attention.triton.tiles import Layer, Machine, choose_splits, choose_tiles, power_of_two  # noqa: E402

H200 = Machine(multiprocessors=132, capability=90)


def test_power_of_two() -> None:
    assert [power_of_two(n) for n in (1, 2, 3, 4, 5, 64, 65)] == [1, 2, 4, 4, 8, 64, 128]


def test_decodes_of_one_length_fill_the_gpu() -> None:
    """132 multiprocessors take 264 programs; 8 KV heads times n sequences make 8 n, cut as often as 264 allows."""
    cut = {n: choose_splits(H200, [1] * n, [16384] * n, kv_heads=8, positions_per_tile=4) for n in (1, 4, 16, 17, 33, 64)}
    assert cut == {1: 33, 4: 8, 16: 2, 17: 1, 33: 1, 64: 1}


def test_parts_have_256_keys_or_more() -> None:
    assert [choose_splits(H200, [1], [n], 8, 4) for n in (1, 255, 511, 512, 1024, 8448)] == [1, 1, 1, 2, 4, 33]


def test_no_more_than_64_parts() -> None:
    assert choose_splits(H200, [1], [100_000], kv_heads=1, positions_per_tile=4) == 64


def test_a_long_context_among_short_ones_is_cut() -> None:
    """All work is 8 * (31 * 1000 + 100,000) keys, the share of one of 264 programs 3970: 100,000 are 25.2 shares."""
    assert choose_splits(H200, [1] * 32, [1000] * 31 + [100_000], kv_heads=8, positions_per_tile=4) == 25


def test_prefills_count_their_tiles() -> None:
    """1024 rows in tiles of 32 are 32 programs a head, 256 in all: enough. 64 rows are 16 programs: 16 parts."""
    assert choose_splits(H200, [1024], [8192], kv_heads=8, positions_per_tile=32) == 1
    assert choose_splits(H200, [64], [8192], kv_heads=8, positions_per_tile=32) == 16


def test_padding_alone_is_not_cut() -> None:
    assert choose_splits(H200, [1, 1], [0, 0], kv_heads=8, positions_per_tile=4) == 1


@pytest.mark.parametrize("machine", [H200, Machine(108, 80), Machine(1, 90, interpreted=True)])
def test_tiles_are_powers_of_two_that_hold_a_group(machine: Machine) -> None:
    for group in (1, 3, 4, 7, 8, 16, 33, 71, 128):
        for dim in (8, 64, 80, 128, 256):
            for dtype, cache_dtype in ((torch.float32, torch.float32), (torch.bfloat16, FP8)):
                for decode in (True, False):
                    tiles = choose_tiles(machine, Layer(1, group, dim, 16, dtype, cache_dtype), decode)
                    assert all(n == power_of_two(n) for n in (tiles.rows, tiles.keys, tiles.warps))
                    assert tiles.rows >= max(16, group) and tiles.keys >= 16
