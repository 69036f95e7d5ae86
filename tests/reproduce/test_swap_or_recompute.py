"""Costs of one preemption by hand, and both ways under pressure, small."""

import pytest

from twin.reproduce.experiment import load
from twin.reproduce.swap_or_recompute import cost_of, one_preemption, requests

KV_BYTES = 2 * 40 * 5120 * 2  # a token of OPT-13B: keys and values, layers, width, bytes


@pytest.mark.parametrize(("block_size", "blocks"), [(1, 512), (16, 32), (64, 8), (256, 2)])
def test_swapping_moves_every_block_twice(block_size: int, blocks: int):
    """swap-05: 2 k (block bytes / bandwidth + cost a copy), the same bytes whatever the block size."""
    cost = cost_of(load("swap_or_recompute", ["tokens=512"]), block_size)
    assert cost.swap_s == pytest.approx(2 * (512 * KV_BYTES / (25 * 2**30) + blocks * 80 * 10e-6), rel=1e-12)


def test_recomputing_costs_the_same_whatever_the_block_size_and_no_less_than_its_arithmetic():
    experiment = load("swap_or_recompute")
    costs = {cost_of(experiment, size).recompute_s for size in (1, 16, 256)}
    assert len(costs) == 1
    assert min(costs) > 499 * 2 * 40 * 12 * 5120**2 / 312e12  # 12 width ** 2 parameters a layer, at the device's peak


def test_one_preemption_goes_the_way_that_was_published():
    figures = one_preemption(load("swap_or_recompute"))
    ways = [figure.direction for figure in figures if figure.direction is not None]
    assert ways == [True] * 4


def test_small_blocks_make_swapping_slow():
    changes = ["jobs=1", "requests=250", "rate=3.0", "slots=8000", "block_sizes=[1, 16]"]
    swapping = requests(load("swap_or_recompute", changes))[0]
    assert swapping.what == "latency, blocks of 1: swap, recompute" and swapping.direction
