"""Which compositions are worth measuring within given limits, and in which order to take them.

Sizes go up by factors, since step times are smooth but for the steps at the edges of blocks and tiles, which have points of
their own. Each list is ordered so that its first n points, for any n, are spread over all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from engine.profile.composition import Composition
from twin.core.limits import Limits, blocks_for

TILES = (16, 64, 128)  # rows of a matrix product that kernels compute together
SMALLEST_CHUNK = 16
PROMPTS = (4, 16)  # in one step, beside the usual single one


def grid(limits: Limits) -> dict[str, list[Composition]]:
    """The points that fit, by what they are for, each list in the order in which to take its points."""

    def fitting(points: Iterable[Composition]) -> list[Composition]:
        return list(dict.fromkeys(point for point in points if point.fits(limits)))

    return {
        "decode": spread(fitting(_decodes(limits))),
        "prefill": spread(fitting(_prefills(limits))),
        "mixed": spread(fitting(_mixed(limits))),
        "edges": fitting(_edges(limits)),
        "swap": spread(fitting(_swaps(limits))),
    }


def ladder(first: int, last: int, factor: int) -> list[int]:
    """first, first * factor, ... and `last`, wherever it lies."""
    sizes = []
    while first < last:
        sizes.append(first)
        first *= factor
    return [*sizes, last] if last > 0 else sizes


def _decodes(limits: Limits) -> Iterator[Composition]:
    """Batch by context, up to the contexts that the pool holds for so many."""
    block = limits.block_size
    for batch in ladder(1, min(limits.max_num_seqs, limits.max_num_batched_tokens, limits.num_blocks), 2):
        longest = min(limits.max_model_len, limits.num_blocks // batch * block)
        for context in ladder(block, longest, 2):
            yield Composition("decode", batch, context)


def _prefills(limits: Limits) -> Iterator[Composition]:
    """Chunk by what was computed before it; then some prompts at once."""
    longest, budget = _longest(limits), limits.max_num_batched_tokens
    for chunk in ladder(SMALLEST_CHUNK, min(budget, longest), 2):
        befores = [0, *ladder(4 * limits.block_size, longest - chunk, 4)] if limits.enable_chunked_prefill else [0]
        for before in befores:
            yield Composition("prefill", prompts=1, chunk=chunk, chunk_before=before)
    for prompts in PROMPTS:
        for chunk in ladder(SMALLEST_CHUNK, min(budget // prompts, longest), 4):
            yield Composition("prefill", prompts=prompts, chunk=chunk)


def _mixed(limits: Limits) -> Iterator[Composition]:
    """Decodes with one chunk, at the front and at the back of its prompt."""
    block, longest, budget = limits.block_size, _longest(limits), limits.max_num_batched_tokens
    for decodes in ladder(1, min(limits.max_num_seqs - 1, budget - 1), 4):
        for context in ladder(4 * block, longest, 8):
            for chunk in ladder(SMALLEST_CHUNK, min(budget - decodes, longest), 4):
                for before in (0, longest - chunk) if limits.enable_chunked_prefill else (0,):
                    yield Composition("mixed", decodes, context, 1, chunk, before)


def _swaps(limits: Limits) -> Iterator[Composition]:
    """Blocks beside one decode of one block, in one copy and in many, up to those of the longest request."""
    longest = blocks_for(_longest(limits), limits.block_size)
    most, context = min(longest, limits.num_host_blocks, limits.num_blocks - 1), min(limits.block_size, limits.max_model_len)
    for blocks in ladder(1, most, 4):
        for scattered in (False, True) if blocks > 1 else (False,):
            yield Composition("swap", 1, context, blocks_out=blocks, scattered=scattered)
            yield Composition("swap", 1, context, blocks_in=blocks, scattered=scattered)


def _edges(limits: Limits) -> Iterator[Composition]:
    """One below, at, and one above: chunks and batches at tiles, contexts and starts of chunks at blocks."""
    block = limits.block_size
    for tile in (*TILES, 2 * TILES[-1]):
        for chunk in _around(tile):
            yield Composition("prefill", prompts=1, chunk=chunk)
        for batch in _around(tile):
            yield Composition("decode", batch, 2 * block)
    for blocks in (1, 4, 16):
        for context in _around(blocks * block):
            yield Composition("decode", 1, context)
        for before in _around(blocks * block) if limits.enable_chunked_prefill else ():
            yield Composition("prefill", prompts=1, chunk=TILES[1], chunk_before=before)


def _around(size: int) -> tuple[int, ...]:
    return tuple(near for near in (size - 1, size, size + 1) if near > 0)


def _longest(limits: Limits) -> int:
    """Tokens of context that a single sequence can have."""
    return min(limits.max_model_len, limits.num_blocks * limits.block_size)


def spread(points: list[Composition]) -> list[Composition]:
    """The first point, then always the one that is farthest from those taken, in logarithms of its sizes.

    It is the order of Gonzalez (1985): any beginning of it covers the whole at most twice as coarsely as is possible.
    """
    if not points:
        return []
    where = np.log1p([
        [p.decodes, p.decode_context, p.prompts, p.chunk, p.chunk_before, p.blocks_out, p.blocks_in, p.scattered]
        for p in points
    ])  # fmt: skip
    order = [0]
    distance = np.linalg.norm(where - where[0], axis=1)
    while len(order) < len(points):
        order.append(int(distance.argmax()))  # the first of equals
        distance = np.minimum(distance, np.linalg.norm(where - where[order[-1]], axis=1))
        distance[order] = -1
    return [points[index] for index in order]
