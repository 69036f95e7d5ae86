"""Which points there are, by hand."""

import numpy as np
import pytest

from engine.profile.composition import Composition
from engine.profile.grid import grid, ladder, spread
from twin.core.batch import Features
from twin.core.limits import Limits

LIMITS = Limits(64, 16, num_host_blocks=8, max_num_seqs=32, max_num_batched_tokens=256, max_model_len=512)
SMALL = Limits(1, 4, num_host_blocks=0, max_num_seqs=1, max_num_batched_tokens=1, max_model_len=3)


def test_features_of_a_mixed_step():
    """Three decodes at 40, and two parts of 20 tokens after 5: 2 * 20 * (5 + 10) pairs."""
    point = Composition("mixed", 3, 40, 2, 20, 5)
    assert point.features == Features(5, 40, 3, 170, 50, 600.0, 2)
    assert point.tokens == 43


def test_blocks_are_those_of_tables_and_of_transfers():
    """Of 16: 40 tokens take 3, 25 take 2."""
    assert Composition("mixed", 3, 40, 2, 20, 5).blocks(16) == 3 * 3 + 2 * 2
    assert Composition("swap", 1, 16, blocks_out=5, blocks_in=2).blocks(16) == 8


@pytest.mark.parametrize(
    "first, last, factor, sizes",
    [(1, 8, 2, [1, 2, 4, 8]), (1, 9, 2, [1, 2, 4, 8, 9]), (16, 5, 2, [5]), (16, 0, 4, []), (16, 16, 4, [16])],
)
def test_ladder(first: int, last: int, factor: int, sizes: list[int]):
    assert ladder(first, last, factor) == sizes


@pytest.mark.parametrize("limits", [LIMITS, SMALL, Limits(4, 16, max_model_len=2048), Limits(1000, 1, max_model_len=40)])
def test_every_point_could_be_a_step_within_the_limits(limits: Limits):
    points = [point for group in grid(limits).values() for point in group]
    assert points
    for point in points:
        assert point.tokens <= limits.max_num_batched_tokens and point.features.sequences <= limits.max_num_seqs
        assert point.blocks(limits.block_size) <= limits.num_blocks
        assert max(point.decode_context, point.chunk_before + point.chunk) <= limits.max_model_len
        assert point.blocks_out + point.blocks_in <= limits.num_host_blocks


def test_decodes_are_batches_by_the_contexts_that_the_pool_holds_for_them():
    """64 blocks of 16: of one sequence 512 (the model's), of 32 only two blocks each."""
    points = {(point.decodes, point.decode_context) for point in grid(LIMITS)["decode"]}
    assert {context for batch, context in points if batch == 1} == {16, 32, 64, 128, 256, 512}
    assert {context for batch, context in points if batch == 32} == {16, 32}
    assert {batch for batch, _ in points} == {1, 2, 4, 8, 16, 32}


def test_prefills_are_chunks_by_what_was_computed_before():
    points = {(point.prompts, point.chunk, point.chunk_before) for point in grid(LIMITS)["prefill"]}
    assert {before for prompts, chunk, before in points if (prompts, chunk) == (1, 256)} == {0, 64, 256}
    assert {chunk for prompts, chunk, before in points if (prompts, before) == (1, 0)} == {16, 32, 64, 128, 256}
    assert {chunk for prompts, chunk, _ in points if prompts == 4} == {16, 64}


def test_mixed_steps_hold_decodes_and_one_chunk():
    points = grid(LIMITS)["mixed"]
    assert points and all(point.decodes > 0 and point.prompts == 1 and point.chunk > 0 for point in points)


def test_without_chunked_prefill_prompts_are_whole():
    limits = Limits(64, 16, max_num_seqs=32, max_num_batched_tokens=512, max_model_len=512, enable_chunked_prefill=False)
    assert {point.chunk_before for group in grid(limits).values() for point in group} == {0}


def test_edges_of_blocks_and_tiles_have_neighbours_on_both_sides():
    points = grid(LIMITS)["edges"]
    chunks = {point.chunk for point in points if point.prompts and not point.chunk_before}
    assert chunks == {15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256}  # 257 is beyond the budget
    assert {point.decodes for point in points if point.decode_context == 32} == {15, 16, 17}
    assert {point.decode_context for point in points if point.decodes == 1} == {15, 16, 17, 63, 64, 65, 255, 256, 257}
    assert {point.chunk_before for point in points} - {0} == {15, 16, 17, 63, 64, 65, 255, 256, 257}


def test_swaps_go_both_ways_in_one_copy_and_in_many():
    points = {(point.blocks_out, point.blocks_in, point.scattered) for point in grid(LIMITS)["swap"]}
    one, many = {(1, 0, False), (4, 0, False), (8, 0, False)}, {(4, 0, True), (8, 0, True)}
    assert points == {*one, *many, *((back, out, scattered) for out, back, scattered in one | many)}


def test_without_host_blocks_nothing_swaps():
    assert grid(SMALL)["swap"] == []


def test_spread_takes_ends_first_then_middles():
    """By logarithms: of 1 ... 255 the end, then 15 (log 16 is the middle of log 2 and log 256)."""
    points = [Composition("decode", batch) for batch in (1, 3, 7, 15, 31, 63, 127, 255)]
    assert [point.decodes for point in spread(points)][:3] == [1, 255, 15]
    assert sorted(point.decodes for point in spread(points)) == [1, 3, 7, 15, 31, 63, 127, 255]


@pytest.mark.parametrize("count", [3, 6, 12])
def test_any_beginning_covers_the_grid_better_than_the_order_of_the_grid(count: int):
    points = grid(LIMITS)["decode"]
    where = np.log1p([[point.decodes, point.decode_context] for point in points])

    def coarseness(chosen: np.ndarray) -> float:
        return float(np.linalg.norm(where[:, None] - chosen[None], axis=2).min(axis=1).max())

    in_order = np.log1p(sorted([point.decodes, point.decode_context] for point in points))
    assert coarseness(where[:count]) < coarseness(in_order[:count])
