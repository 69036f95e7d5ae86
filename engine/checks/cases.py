"""Random steps for attention back ends, with the answer.

    case = make_case(**CASES["mixed"], dtype=torch.float16)
    result = run(backend, case)  # writes, checks the caches to the bit, attends
    case.check(result)

What a sequence holds is drawn as plain tensors, one row a position, and the answer computed from them, never through a
block table. The blocks are scattered over the pool. All that no sequence of the step may read is NaN: blocks that nobody
owns, slots behind a context in its last block, and the slots that this very step writes until it has written them. The last
block of the pool has no owner, so slot -1 in PyTorch's sense must still be NaN after the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.attention.base import AttentionBatch
from engine.attention.fp8 import FP8, FP8_MAX, from_cache, to_cache
from engine.attention.reference import attention
from engine.checks.case import Case


class Share(NamedTuple):
    """Sequence `reader` holds the first `blocks` blocks of sequence `writer` (numbers as in query_lens)."""

    reader: int
    writer: int
    blocks: int


def make_case(
    query_lens: Sequence[int], contexts: Sequence[int], *, heads: int = 4, kv_heads: int = 2, dim: int = 64,
    block_size: int = 16, dtype: torch.dtype = torch.float32, cache_dtype: torch.dtype | None = None,
    shares: Sequence[Share] = (), padding: int = 0, seed: int = 0, device: str | torch.device = "cpu",
) -> Case:  # fmt: skip
    """A step of sequences with `query_lens` new rows each, `contexts` positions after the step (those with one row first).

    `cache_dtype` is `dtype` unless given. `padding` rows of no sequence stand behind the decodes. The random numbers depend
    on `seed` and the shapes alone.
    """
    decodes = next((i for i, rows in enumerate(query_lens) if rows > 1), len(query_lens))
    assert all(rows > 1 for rows in query_lens[decodes:]), "sequences with one row come first"
    assert all(1 <= rows <= context for rows, context in zip(query_lens, contexts, strict=True))
    draw = _Draw(seed, kv_heads, dim, dtype)
    keys, values = ([draw.rows(context) for context in contexts] for _ in range(2))
    for reader, writer, blocks in shares:
        shared = blocks * block_size
        assert contexts[reader] - query_lens[reader] >= shared <= contexts[writer], (
            "shared blocks are full and not written twice"
        )
        keys[reader][:shared], values[reader][:shared] = keys[writer][:shared], values[writer][:shared]
    tables, num_blocks = draw.tables([-(-context // block_size) for context in contexts], shares)

    starts = [context - rows for context, rows in zip(contexts, query_lens, strict=True)]
    new_slots = [_slots(table, block_size, start, end) for table, start, end in zip(tables, starts, contexts, strict=True)]
    q = [torch.randn(rows, heads, dim, generator=draw.random).to(dtype) for rows in query_lens]
    cache_dtype = cache_dtype or dtype
    shape = num_blocks, block_size, kv_heads, dim
    caches = [_caches(rows, tables, new_slots, shape, cache_dtype) for rows in (keys, values)]
    (k_cache, k_written, k_scale), (v_cache, v_written, v_scale) = caches
    expected = [
        attention(q_, _stored(k_, cache_dtype, k_scale), _stored(v_, cache_dtype, v_scale), dim**-0.5)
        for q_, k_, v_ in zip(q, keys, values, strict=True)
    ]

    def varlen(per_sequence: Sequence[Tensor], pad: Tensor) -> Tensor:
        """The rows of all sequences, with the padding behind the decodes."""
        return torch.cat([*per_sequence[:decodes], *[pad[None]] * padding, *per_sequence[decodes:]])

    def inserted(per_sequence: Sequence[Any], pad: Any) -> list[Any]:
        return [*per_sequence[:decodes], *[pad] * padding, *per_sequence[decodes:]]

    lens, ends = inserted(query_lens, 1), inserted(contexts, 0)
    width = max((len(table) for table in tables), default=0) + 1
    batch = AttentionBatch(
        query_start=torch.tensor([0, *accumulate(lens)], dtype=torch.int32),
        context_lens=torch.tensor(ends, dtype=torch.int32),
        block_tables=torch.tensor(
            [table + [-1] * (width - len(table)) for table in inserted(tables, [])], dtype=torch.int32
        ),
        slots=varlen(new_slots, torch.tensor(-1)),
        positions=varlen([torch.arange(*span) for span in zip(starts, contexts, strict=True)], torch.tensor(0)),
        num_decodes=decodes + padding,
        query_lens=lens,
        contexts=ends,
    )
    case = Case(
        q=varlen(q, torch.ones(heads, dim, dtype=dtype)),
        k=varlen([rows[start:] for rows, start in zip(keys, starts, strict=True)], draw.rows(1)[0]),
        v=varlen([rows[start:] for rows, start in zip(values, starts, strict=True)], draw.rows(1)[0]),
        k_cache=k_cache, v_cache=v_cache, k_written=k_written, v_written=v_written, k_scale=k_scale, v_scale=v_scale,
        batch=batch, scale=dim**-0.5, expected=varlen(expected, torch.zeros(heads, dim)),
    )  # fmt: skip
    return case.to(device)


# Arguments of make_case by name, for block_size 16 (the default): every back end should pass all of them.
CASES: dict[str, dict[str, Any]] = {
    "decode one": dict(query_lens=[1], contexts=[37]),
    "decode the first token": dict(query_lens=[1], contexts=[1]),
    "decode ragged": dict(query_lens=[1] * 5, contexts=[3, 100, 16, 61, 17]),
    "decode at block edges (eng-04)": dict(query_lens=[1] * 5, contexts=[15, 16, 17, 32, 33]),
    "decode padded to 8 (eng-01, eng-02)": dict(query_lens=[1] * 5, contexts=[3, 40, 16, 61, 17], padding=3),
    "padding alone": dict(query_lens=[], contexts=[], padding=2),
    "prefill": dict(query_lens=[37], contexts=[37]),
    "prefills at block edges (eng-04)": dict(query_lens=[15, 16, 17, 32], contexts=[15, 16, 17, 32]),
    "chunk in the middle": dict(query_lens=[21], contexts=[75]),
    "chunks at block edges": dict(query_lens=[16, 8, 17, 2], contexts=[32, 24, 33, 17]),
    "mixed": dict(query_lens=[1, 1, 1, 20, 7], contexts=[50, 1, 33, 20, 64]),
    "mixed and padded": dict(query_lens=[1, 1, 9], contexts=[18, 64, 41], padding=2),
    "a decode reads what a prefill writes": dict(query_lens=[1, 40], contexts=[33, 40], shares=[Share(0, 1, 2)]),
    "a prefill reads what another writes": dict(query_lens=[40, 9], contexts=[40, 41], shares=[Share(1, 0, 2)]),
    "groups of 1": dict(query_lens=[1, 5], contexts=[30, 21], heads=3, kv_heads=3),
    "groups of 3": dict(query_lens=[1, 5], contexts=[30, 21], heads=9, kv_heads=3),
    "groups of 5": dict(query_lens=[1, 5], contexts=[30, 21], heads=5, kv_heads=1),
    "groups of 7": dict(query_lens=[1, 5], contexts=[30, 21], heads=14, kv_heads=2),
    "groups of 8": dict(query_lens=[1, 5], contexts=[30, 21], heads=8, kv_heads=1),
}


class _Draw:
    """The random numbers of a case."""

    def __init__(self, seed: int, kv_heads: int, dim: int, dtype: torch.dtype) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.kv_heads, self.dim, self.dtype = kv_heads, dim, dtype

    def rows(self, count: int) -> Tensor:
        return torch.randn(count, self.kv_heads, self.dim, generator=self.random).to(self.dtype)

    def tables(self, sizes: Sequence[int], shares: Sequence[Share]) -> tuple[list[list[int]], int]:
        """Block tables, nothing in common but what is shared, and the size of the pool; its last block is nobody's."""
        num_blocks = sum(sizes) + 4
        free = torch.randperm(num_blocks - 1, generator=self.random).tolist()
        tables = [[free.pop() for _ in range(size)] for size in sizes]
        for reader, writer, blocks in shares:
            tables[reader][:blocks] = tables[writer][:blocks]
        return tables, num_blocks


def _slots(table: list[int], block_size: int, start: int, end: int) -> Tensor:
    return torch.tensor([table[p // block_size] * block_size + p % block_size for p in range(start, end)], dtype=torch.int64)


def _caches(
    rows: list[Tensor], tables: list[list[int]], new_slots: list[Tensor], shape: tuple[int, ...], dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """The cache of K or of V before the step and after `write`, NaN elsewhere, and the scales."""
    num_blocks, block_size, kv_heads, dim = shape
    scale = torch.ones(kv_heads)
    if dtype == FP8 and rows:  # a little too small, so that the largest values have to be clamped
        scale = 0.8 * torch.cat(rows).float().abs().amax(dim=(0, 2)) / FP8_MAX
    written = torch.full((num_blocks * block_size, kv_heads, dim), float("nan")).to(dtype)
    for content, table in zip(rows, tables, strict=True):
        written[_slots(table, block_size, 0, len(content))] = to_cache(content, dtype, scale)
    before = written.clone()
    for slots in new_slots:
        before[slots] = float("nan")
    return before.view(shape), written.view(shape), scale


def _stored(rows: Tensor, dtype: torch.dtype, scale: Tensor) -> Tensor:
    """Values as the cache hands them back."""
    return from_cache(to_cache(rows, dtype, scale), scale)
